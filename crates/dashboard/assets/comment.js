// Choosing several at once, and comments on the lines of a diff. These are written into the field of the form that
// sends a run back, one a line, so that without this script the same can be typed there.

const findings = document.getElementById("findings");

function say(place, text) {
  const start = `${place}: `;
  const lines = findings.value.split("\n").filter((line) => line.trim() && !line.startsWith(start));
  const words = text.replace(/\s+/g, " ").trim();
  if (words) lines.push(start + words);
  findings.value = lines.join("\n");
}

function open(line) {
  const place = line.dataset.at;
  const next = line.nextElementSibling;
  if (next?.classList.contains("comment")) {
    next.querySelector("textarea").focus();
    return;
  }
  const box = document.createElement("div");
  box.className = "comment";
  const label = document.createElement("label");
  label.append(`Comment on ${place}`);
  const text = document.createElement("textarea");
  text.rows = 2;
  text.maxLength = 3000;
  text.addEventListener("input", () => say(place, text.value));
  text.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    if (!text.value.trim()) box.remove();
    line.closest(".diff").focus();
  });
  label.append(text);
  box.append(label);
  line.after(box);
  text.focus();
}

// From the keyboard: the arrows choose a line, Enter comments on it.
function move(diff, step) {
  const lines = [...diff.querySelectorAll("[data-at]")];
  const at = lines.findIndex((line) => line.classList.contains("chosen"));
  const next = lines[Math.min(Math.max(at + step, 0), lines.length - 1)];
  if (!next) return;
  lines[at]?.classList.remove("chosen");
  next.classList.add("chosen");
  next.scrollIntoView({ block: "nearest" });
}

// A file that a link names is unfolded.
function unfold() {
  const named = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (named instanceof HTMLDetailsElement) named.open = true;
}

addEventListener("hashchange", unfold);
unfold();

// All that can be chosen for a form, at once. It may come later.
document.addEventListener("change", ({ target }) => {
  if (!target.dataset.all) return;
  for (const box of document.querySelectorAll(`[form="${target.dataset.all}"]`)) box.checked = target.checked;
});

// Comments that would go to nobody are asked about.
document.addEventListener("submit", (event) => {
  if (!findings?.value.trim() || event.target.contains(findings) || !event.target.closest("#decide")) return;
  const words = "Your comments on lines go to the agent only if you send the run back. Decide without them?";
  if (!confirm(words)) event.preventDefault();
}, { capture: true });

if (findings) {
  for (const hint of document.querySelectorAll(".scripted")) hint.hidden = false;
  for (const diff of document.querySelectorAll(".diff")) {
    diff.addEventListener("click", (event) => {
      const line = event.target.closest(".no")?.closest("[data-at]");
      if (line) open(line);
    });
    diff.addEventListener("keydown", (event) => {
      if (event.target !== diff) return;
      const steps = { ArrowDown: 1, ArrowUp: -1 };
      if (steps[event.key]) move(diff, steps[event.key]);
      else if (event.key === "Enter") {
        const line = diff.querySelector(".chosen");
        if (line) open(line);
      } else return;
      event.preventDefault();
    });
  }
}
