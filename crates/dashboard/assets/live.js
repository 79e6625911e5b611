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
      if (next && !busy && next.innerHTML !== part.innerHTML) part.innerHTML = next.innerHTML;
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

// A page that is not complete yet says so, and is looked at again soon.
function lookAgain() {
  if (document.querySelector("[data-again]")) setTimeout(schedule, againMs);
}

function schedule() {
  timer ??= setTimeout(refresh, Math.max(pauseMs, tookMs * restFactor));
}

// The page of a run shows nothing of other runs.
function concerns(event) {
  const [, kind, project, run] = location.pathname.split("/").map(decodeURIComponent);
  if (kind !== "runs" || !run) return true;
  return event.project === project && event.run === run;
}

if (document.body.hasAttribute("data-live")) {
  const events = new EventSource("/api/v1/events");
  let lost = false;
  events.addEventListener("open", () => {
    banner.hidden = true;
    if (lost) schedule();
    lost = false;
  });
  events.addEventListener("error", () => {
    banner.hidden = false;
    lost = true;
  });
  events.addEventListener("entry", (entry) => {
    if (concerns(JSON.parse(entry.data))) schedule();
  });
  document.addEventListener("visibilitychange", schedule);
  events.addEventListener("reset", schedule);
  // Times such as "2 min ago" grow old.
  setInterval(schedule, 30000);
  lookAgain();
}
