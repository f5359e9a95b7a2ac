// A group of charts under its heading, which folds it. Charts of a folded one are not drawn at all.
import { ChevronDown, ChevronRight } from "lucide-react";
import type { ReactNode } from "react";
import { useAddress } from "../../../ui/address-part";
import { foldedGroups, withFolded } from "./folded-groups";
import type { PlotGroup } from "./plots";

export function ChartGroup({ group, children }: { group: PlotGroup; children: ReactNode }) {
  const [address, setAddress] = useAddress();
  const isFolded = foldedGroups(address).includes(group.key);
  const Sign = isFolded ? ChevronRight : ChevronDown;
  const body = `charts-${group.key}`;
  return (
    <section aria-label={`Charts: ${group.title}`} className={isFolded ? "print:hidden" : ""}>
      <h3>
        <button
          type="button"
          aria-expanded={!isFolded}
          aria-controls={isFolded ? undefined : body}
          className="flex w-full items-center gap-1.5 bg-sunken px-3 py-1.5 text-left text-xs font-semibold hover:text-accent print:bg-transparent"
          onClick={() => {
            setAddress((before) => withFolded(before, group.key, !isFolded), { replace: true });
          }}
        >
          <Sign aria-hidden className="size-3.5 print:hidden" />
          {group.title}
        </button>
      </h3>
      {!isFolded && (
        <div id={body} className="grid grid-cols-1 border-line sm:grid-cols-2 [&>*]:border-t [&>*]:border-line">
          {children}
        </div>
      )}
    </section>
  );
}
