// A group of charts under its heading, which opens it: in the address, so that a reload and a link show the same. Charts of a closed one are not drawn at all.
import { ChevronDown, ChevronRight } from "lucide-react";
import type { ReactNode } from "react";
import { useAddress, withParts } from "../../../ui/address-part";
import { number } from "../../../ui/format";
import { GROUPS, type PlotGroup } from "./plots";

/** The keys of groups that there are, in their order. */
export function openGroups(address: URLSearchParams): string[] {
  const named = (address.get("open") ?? "").split(",");
  return GROUPS.flatMap(({ key }) => (named.includes(key) ? [key] : []));
}

/** The address with these groups open or closed, and the others as they are. */
export function withOpen(
  address: URLSearchParams,
  keys: readonly string[],
  isOpen: boolean,
): URLSearchParams {
  const others = openGroups(address).filter((key) => !keys.includes(key));
  return withParts(address, { open: (isOpen ? [...others, ...keys] : others).join(",") });
}

export function ChartGroup({
  group,
  count,
  children,
}: {
  group: PlotGroup;
  count: number;
  children: ReactNode;
}) {
  const [address, setAddress] = useAddress();
  const isOpen = openGroups(address).includes(group.key);
  const Sign = isOpen ? ChevronDown : ChevronRight;
  const body = `charts-${group.key}`;
  return (
    <section aria-label={`Charts: ${group.title}`} className={isOpen ? "" : "print:hidden"}>
      <h3>
        <button
          type="button"
          aria-expanded={isOpen}
          aria-controls={isOpen ? body : undefined}
          className="flex w-full items-center gap-1.5 bg-sunken px-3 py-1.5 text-left text-xs font-semibold hover:text-accent print:bg-transparent"
          onClick={() => {
            setAddress((before) => withOpen(before, [group.key], !isOpen));
          }}
        >
          <Sign aria-hidden className="size-3.5 print:hidden" />
          {group.title} <span className="font-normal text-muted">{number(count)}</span>
        </button>
      </h3>
      {isOpen && <div id={body}>{children}</div>}
    </section>
  );
}
