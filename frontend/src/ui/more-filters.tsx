// Filters that few lists are narrowed by: folded, unless the page's address has one of them.
import { useState, type ReactNode } from "react";
import { useAddress } from "./address-part";

/** `parts`: their names in the address. */
export function MoreFilters({
  parts,
  children,
}: {
  parts: readonly string[];
  children: ReactNode;
}) {
  const [address] = useAddress();
  const used = parts.filter((part) => address.has(part)).length;
  const [isOpen, setOpen] = useState(used > 0);
  const [seen, setSeen] = useState(used);
  // A link to a narrower list shows by what it is narrowed; what is cleared stays, to be typed anew.
  if (used !== seen) {
    setSeen(used);
    if (used > seen) setOpen(true);
  }
  return (
    <details
      className="open:basis-full"
      open={isOpen}
      onToggle={(event) => {
        setOpen(event.currentTarget.open);
      }}
    >
      <summary className="flex h-8 w-fit cursor-pointer items-center rounded px-1 text-muted hover:text-ink">
        {isOpen ? "Fewer filters" : "More filters"}
        {used > 0 && `, ${String(used)} in use`}
      </summary>
      <div className="mt-2 flex flex-wrap items-end gap-2">{children}</div>
    </details>
  );
}
