import type { ComponentChildren } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";

/** A box whose content can be scrolled sideways, and which says so where some of it is out of sight. */
export function Scroll({ kind, label, children }: { kind: string; label?: string; children: ComponentChildren }) {
  const box = useRef<HTMLDivElement>(null);
  const [more, setMore] = useState<"" | "right" | "left" | "both">("");
  useLayoutEffect(() => {
    const element = box.current;
    if (!element) return;
    const look = (): void => {
      const left = element.scrollLeft > 1;
      const right = element.scrollLeft + element.clientWidth < element.scrollWidth - 1;
      setMore(left ? (right ? "both" : "left") : right ? "right" : "");
    };
    const watch = new ResizeObserver(look);
    watch.observe(element);
    if (element.firstElementChild) watch.observe(element.firstElementChild);
    element.addEventListener("scroll", look, { passive: true });
    look();
    return () => {
      watch.disconnect();
      element.removeEventListener("scroll", look);
    };
  }, []);
  const names = { "": "", right: "More to the right →", left: "← More to the left", both: "← More on both sides →" };
  return (
    <>
      <div ref={box} class={`scroll ${kind}`} {...(label && { tabIndex: 0, role: "group", "aria-labelledby": label })}>
        {children}
      </div>
      {more && <p class="beyond">{names[more]}; scroll to see it.</p>}
    </>
  );
}
