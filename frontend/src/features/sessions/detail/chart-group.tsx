// A group of charts under its heading, which opens it. Charts of a closed one are not drawn at all.
import { ChevronDown, ChevronRight } from "lucide-react";
import type { ReactNode } from "react";
import { useAddress } from "../../../ui/address-part";
import { number } from "../../../ui/format";
import { openGroups, withOpen } from "./open-groups";
import type { PlotGroup } from "./plots";

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
            setAddress((before) => withOpen(before, [group.key], !isOpen), { replace: true });
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
