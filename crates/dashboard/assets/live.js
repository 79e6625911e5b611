// Keeps a page up to date: when something happens, the page is fetched again and its changed parts are put in.
// What somebody is typing in is left alone. A page that nobody sees waits until it is seen.

const banner = document.getElementById("connection");
const pauseMs = 150;
const againMs = 500;
// A page that takes long is fetched less often.
const restFactor = 3;
let tookMs = 0;
let timer = null;
let fetching = false;
let again = false;

async function refresh() {
  timer = null;
  if (document.hidden) return;
  if (fetching) {
    again = true;
    return;
  }
  fetching = true;
  const began = performance.now();
  try {
    const response = await fetch(location.href, { credentials: "same-origin", headers: { accept: "text/html" } });
    if (!response.ok) return;
    const fresh = new DOMParser().parseFromString(await response.text(), "text/html");
    for (const part of document.querySelectorAll("[data-part]")) {
      const next = fresh.getElementById(part.id);
      const busy = part.contains(document.activeElement) && document.activeElement.matches("input, textarea, select");
      // What the page has no more, such as what can be done with a run that has ended.
      if (!next) part.replaceChildren();
      if (next && !busy && next.innerHTML !== part.innerHTML) replace(part, next);
    }
    document.title = fresh.title;
  } catch {
    // The server is gone; the stream below says so.
  } finally {
    fetching = false;
    tookMs = performance.now() - began;
    lookAgain();
    if (again) {
      again = false;
      schedule();
    }
  }
}

// What somebody has unfolded or chosen stays so.
function replace(part, next) {
  const names = (all, is) => all.filter(is).map((one) => one.value ?? one.querySelector("summary")?.textContent);
  const open = names([...part.querySelectorAll("details")], (one) => one.open);
  const chosen = names([...part.querySelectorAll("input[type=checkbox]")], (one) => one.checked);
  part.innerHTML = next.innerHTML;
  for (const one of part.querySelectorAll("details")) {
    if (open.includes(one.querySelector("summary")?.textContent)) one.open = true;
  }
  for (const one of part.querySelectorAll("input[type=checkbox]")) {
    if (chosen.includes(one.value)) one.checked = true;
  }
}

// A page that is not complete yet says so, and is looked at again soon.
function lookAgain() {
  if (document.querySelector("[data-again]")) setTimeout(schedule, againMs);
}

function schedule() {
  timer ??= setTimeout(refresh, Math.max(pauseMs, tookMs * restFactor));
}

// A page on which somebody decides stays as it is, and says that something has happened.
const moved = document.getElementById("moved");

// The page of a run, a hold or a call shows nothing of others.
function concerns(event) {
  const [, kind, project, name] = location.pathname.split("/").map(decodeURIComponent);
  if (!["runs", "holds", "calls"].includes(kind) || !name) return true;
  // What the page shows already was told a moment too late.
  if (event.entry <= Number(moved?.dataset.entries)) return false;
  return event.project === project && (kind === "calls" ? event.call : event.run) === name;
}

function changed() {
  if (moved) moved.hidden = false;
  else schedule();
}

// The words of the server for a distance in time.
function distance(ms) {
  const seconds = Math.floor(Math.abs(ms) / 1000);
  const [count, unit] =
    seconds < 120 ? [seconds, "s"]
    : seconds < 7200 ? [Math.floor(seconds / 60), "min"]
    : seconds < 172800 ? [Math.floor(seconds / 3600), "h"]
    : [Math.floor(seconds / 86400), "days"];
  return ms >= 0 ? `${count} ${unit} ago` : `in ${count} ${unit}`;
}

function tick() {
  for (const time of document.querySelectorAll("time[datetime]")) {
    const ms = Date.now() - Date.parse(time.dateTime);
    if (Number.isFinite(ms)) time.textContent = distance(ms);
  }
}

setInterval(tick, 5000);

// A picture that is wider than the screen shows first what goes on now.
for (const node of document.querySelectorAll(".graph .status-held, .graph .status-running")) {
  const picture = node.closest(".graph");
  const left = node.getBoundingClientRect().left - picture.getBoundingClientRect().left;
  if (left > picture.clientWidth / 2) picture.scrollLeft += left - picture.clientWidth / 3;
}

// A second click sends nothing twice.
document.addEventListener("submit", (event) => {
  if (event.defaultPrevented) return;
  // After the form was read: a pressed button has a value, too.
  setTimeout(() => {
    for (const button of event.target.querySelectorAll("button[type=submit]")) button.disabled = true;
  });
});
addEventListener("pageshow", () => {
  for (const button of document.querySelectorAll("button[type=submit]:disabled")) button.disabled = false;
});

// A browser has six connections to a server for all its tabs, and a stream takes one: only a page that is seen listens, and
// asks for what it has missed when it is seen again.
let events = null;
// The page shows what had happened before this event; none is missed while it loads.
let last = document.body.dataset.live;
let lost = false;

function listen() {
  if (document.hidden) {
    events?.close();
    events = null;
    return;
  }
  if (events) return;
  events = new EventSource(`/api/v1/events?after=${encodeURIComponent(last)}`);
  events.addEventListener("open", () => {
    banner.hidden = true;
    if (lost && !moved) schedule();
    lost = false;
  });
  events.addEventListener("error", () => {
    banner.hidden = false;
    lost = true;
  });
  events.addEventListener("entry", (event) => {
    last = event.lastEventId;
    if (concerns(JSON.parse(event.data))) changed();
  });
  events.addEventListener("reset", (event) => {
    last = event.lastEventId;
    changed();
  });
}

if (document.body.hasAttribute("data-live")) {
  listen();
  document.addEventListener("visibilitychange", listen);
  if (!moved) document.addEventListener("visibilitychange", schedule);
  // Such as a bar that shows how long something has worked.
  if (!moved) setInterval(schedule, 30000);
  lookAgain();
}
