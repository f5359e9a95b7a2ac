// Buttons, and links that look like them.
import type { ComponentProps } from "react";
import { Link } from "react-router";

type Look = "primary" | "secondary" | "quiet" | "danger";

const LOOKS: Record<Look, string> = {
  primary: "bg-accent text-accent-ink border-transparent hover:opacity-90",
  secondary: "bg-surface text-ink border-line-strong hover:bg-sunken",
  quiet: "bg-transparent text-muted border-transparent hover:bg-sunken hover:text-ink",
  danger: "bg-surface text-bad border-line-strong hover:bg-bad-soft hover:border-bad",
};

function classes(look: Look, extra = ""): string {
  return `inline-flex h-8 items-center justify-center gap-1.5 rounded-md border px-3 font-medium whitespace-nowrap transition-colors print:hidden disabled:opacity-50 ${LOOKS[look]} ${extra}`;
}

export function Button({
  look = "secondary",
  className,
  type = "button",
  ...rest
}: ComponentProps<"button"> & { look?: Look }) {
  return <button type={type} className={classes(look, className)} {...rest} />;
}

/** Leads out of the pages that the router knows. */
export function ButtonAnchor({
  look = "secondary",
  className,
  ...rest
}: ComponentProps<"a"> & { look?: Look }) {
  return <a className={classes(look, className)} {...rest} />;
}

export function ButtonLink({
  look = "secondary",
  className,
  ...rest
}: ComponentProps<typeof Link> & { look?: Look }) {
  return <Link className={classes(look, className)} {...rest} />;
}
