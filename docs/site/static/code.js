// Blocks of code: a button that copies the text, without marks of a notebook or a prompt. Wide blocks, tables and
// equations scroll, also with the keyboard; tables and equations say so, since no bar shows it on a telephone.
const LONG = 60; // characters of a cell that get room on a telephone

document.addEventListener("DOMContentLoaded", () => {
  const focusable = () => {
    for (const box of document.querySelectorAll("article :is(pre, .table-wrapper, div.math)")) {
      const wide = box.scrollWidth > box.clientWidth + 1;
      if (wide) box.tabIndex = 0;
      else box.removeAttribute("tabindex");
      if (box.matches("pre")) continue;
      const next = box.nextElementSibling;
      const told = next?.classList.contains("beyond") ? next : null;
      if (!wide) told?.remove();
      else if (!told) {
        const hint = document.createElement("p");
        hint.className = "beyond";
        hint.textContent = "More to the right →; scroll to see it.";
        box.after(hint);
      }
    }
  };
  for (const cell of document.querySelectorAll("article table.docutils td")) {
    if (cell.textContent.length > LONG) cell.classList.add("prose");
  }
  focusable();
  addEventListener("resize", focusable);
  for (const details of document.querySelectorAll("article details")) details.addEventListener("toggle", focusable);
  for (const block of document.querySelectorAll("article div.highlight")) {
    if (block.closest(".output")) continue;
    const button = document.createElement("button");
    button.type = "button";
    button.className = "copy";
    button.textContent = "Copy";
    button.setAttribute("aria-label", "Copy this code");
    button.addEventListener("click", async () => {
      const text = block.querySelector("pre").textContent.replace(/^[!$] ?/gm, "");
      await navigator.clipboard.writeText(text);
      button.textContent = "Copied";
      setTimeout(() => { button.textContent = "Copy"; }, 1500);
    });
    block.append(button);
  }
});
