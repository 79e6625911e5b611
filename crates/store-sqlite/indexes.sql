-- Find the traces of a plan, and those in a state, in the order of lists: the calls of a run, runs, denied calls. An
-- update of a trace names the columns that change, since SQLite writes an index anew whose columns are named.
CREATE INDEX IF NOT EXISTS traces_of_plan ON traces (plan_id, trace_id);
CREATE INDEX IF NOT EXISTS traces_in_state ON traces (state, trace_id);

-- Finds the traces that somebody holds: lock files of dead processes, copies of a store.
CREATE INDEX IF NOT EXISTS traces_held ON traces (trace_id) WHERE holder IS NOT NULL;
