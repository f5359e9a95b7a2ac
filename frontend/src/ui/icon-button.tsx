// A small square button whose picture is explained by its accessible name and its tooltip.
import type { ComponentProps } from "react";

const ICONS = {
  pin: "M5.5 1.5h5l-.7 4.2 2.7 2.3v1.5h-9V8l2.7-2.3zM8 9.5v5",
  bin: "M2.5 4h11M6 4V2.5h4V4M4 4l.6 9.5h6.8L12 4M6.7 6.5v4.5M9.3 6.5v4.5",
};

interface IconButtonProps extends Omit<ComponentProps<"button">, "children"> {
  icon: keyof typeof ICONS;
  label: string;
  /** Of a button that is on or off. */
  pressed?: boolean;
}

export function IconButton({ icon, label, pressed, ...rest }: IconButtonProps) {
  return (
    <button
      type="button"
      aria-label={label}
      aria-pressed={pressed}
      title={label}
      className={`inline-flex size-7 items-center justify-center rounded-md transition-colors print:hidden hover:bg-line hover:text-ink disabled:opacity-50 ${pressed ? "text-accent" : "text-muted"}`}
      {...rest}
    >
      <svg aria-hidden viewBox="0 0 16 16" className="size-4" fill={pressed ? "currentColor" : "none"} stroke="currentColor" strokeWidth="1.25" strokeLinejoin="round">
        <path d={ICONS[icon]} />
      </svg>
    </button>
  );
}
