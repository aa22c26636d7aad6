// Blocks of code: a button that copies the text, without marks of a notebook or a prompt. Wide blocks, tables and
// equations scroll, also with the keyboard.
document.addEventListener("DOMContentLoaded", () => {
  const focusable = () => {
    for (const box of document.querySelectorAll("article :is(pre, .table-wrapper, div.math)")) {
      if (box.scrollWidth > box.clientWidth) box.tabIndex = 0;
      else box.removeAttribute("tabindex");
    }
  };
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
