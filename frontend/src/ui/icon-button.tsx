// A small square button whose picture is explained by its accessible name and its tooltip.
import type { LucideIcon } from "lucide-react";
import type { ComponentProps } from "react";

interface IconButtonProps extends Omit<ComponentProps<"button">, "children"> {
  icon: LucideIcon;
  label: string;
  /** Of a button that is on or off. */
  pressed?: boolean;
}

export function IconButton({ icon: Icon, label, pressed, ...rest }: IconButtonProps) {
  return (
    <button
      type="button"
      aria-label={label}
      aria-pressed={pressed}
      title={label}
      className={`inline-flex size-7 items-center justify-center rounded-md transition-colors print:hidden hover:bg-line hover:text-ink disabled:opacity-50 ${pressed ? "text-accent" : "text-muted"}`}
      {...rest}
    >
      <Icon className="size-4" strokeWidth={1.75} fill={pressed ? "currentColor" : "none"} />
    </button>
  );
}
