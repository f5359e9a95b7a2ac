// The result of a dry run: predicted memory against the limit, and the position in the queue.
import { Badge, type Tone } from "../../../ui/badge";
import { bytes } from "../../../ui/format";
import { Panel } from "../../../ui/panel";
import {
  memoryParts,
  memoryFit,
  placeParts,
  placeRuns,
  type MemoryPlan,
  type MemoryFit,
} from "./plan";
import type { MemoryPlace } from "../../../api/types";

const TONES: Record<MemoryFit, Tone> = {
  fits: "good",
  tight: "warn",
  "does not fit": "bad",
  unknown: "neutral",
};
const FIT_TEXT: Record<MemoryFit, string> = {
  fits: "It fits into one runtime.",
  tight: "It fits unless a batch fills its rows: then activations go over the limit.",
  "does not fit": "It does not fit into one runtime.",
  unknown: "How much a runtime has, or how large the model is, is not known here.",
};

interface PlanPanelProps {
  plan: MemoryPlan;
  /** None when it was refused. */
  queuePosition: number | null;
  /** What the model's layers mean for cost: sentences of the plan, none where there is nothing to say. */
  said?: (string | null | undefined)[];
}

export function PlanPanel({ plan, queuePosition, said = [] }: PlanPanelProps) {
  const found = memoryFit(plan);
  return (
    <Panel
      title="Check"
      actions={<Badge tone={TONES[found]}>{found === "unknown" ? "memory unknown" : found}</Badge>}
    >
      <div className="grid gap-x-8 gap-y-4 p-4 md:grid-cols-[minmax(0,1fr)_minmax(0,1fr)]">
        <div>
          <MemoryMeter plan={plan} tone={found} />
          <p className="mt-2 text-muted">{FIT_TEXT[found]}</p>
          {said.filter(Boolean).map((words) => (
            <p key={words} className="mt-2 text-muted">
              {words}
            </p>
          ))}
          {queuePosition !== null && (
            <p className="mt-3">
              <span className="font-medium">Place in the queue: {queuePosition}</span>
              {queuePosition === 1 && <span className="text-muted"> · the next to start</span>}
            </p>
          )}
        </div>
        {plan.memory && (
          <dl className="grid grid-cols-[1fr_auto] content-start gap-x-4 gap-y-1 text-xs tabular-nums">
            {memoryParts(plan.memory).map(([name, size]) => (
              <div key={name} className="contents">
                <dt className="text-muted">{name}</dt>
                <dd className="text-right">{bytes(size)}</dd>
              </div>
            ))}
          </dl>
        )}
      </div>
      {plan.memory && <Places places={plan.memory.places} />}
    </Panel>
  );
}

/** What each machine or GPU holds, by part, beside what it has. */
function Places({ places }: { places: MemoryPlace[] }) {
  return (
    <ul className="border-t border-line px-4 py-3 text-xs" aria-label="Memory by place">
      {places.map((place) => (
        <li key={place.name} className="py-1">
          <p className="flex justify-between gap-3">
            <span className="font-medium">
              {place.name}
              {placeRuns(place) && <span className="text-muted"> · {placeRuns(place)}</span>}
            </span>
            <span className="tabular-nums">
              {bytes(place.total_bytes)}
              {place.available_bytes !== null && ` of ${bytes(place.available_bytes)}`}
            </span>
          </p>
          <p className="text-muted">
            {placeParts(place)
              .map(([name, size]) => `${name} ${bytes(size)}`)
              .join(", ")}
          </p>
        </li>
      ))}
    </ul>
  );
}

const FILLS: Record<MemoryFit, string> = {
  fits: "bg-good",
  tight: "bg-warn",
  "does not fit": "bg-bad",
  unknown: "bg-muted",
};

function MemoryMeter({
  plan: { memory, memory_limit_bytes: limit },
  tone,
}: {
  plan: MemoryPlan;
  tone: MemoryFit;
}) {
  const said = `${memory ? bytes(memory.total_bytes) : "unknown"}${limit === null ? "" : ` of ${bytes(limit)}`}`;
  const share = memory && limit ? Math.min(1, memory.total_bytes / limit) : 0;
  return (
    <>
      <p className="flex justify-between gap-3">
        <span className="font-medium">Predicted memory</span>
        <span className="tabular-nums">{said}</span>
      </p>
      <div
        role="meter"
        aria-label="Predicted memory"
        aria-valuemin={0}
        aria-valuemax={limit ?? 0}
        aria-valuenow={memory?.total_bytes ?? 0}
        aria-valuetext={said}
        className="mt-2 h-2 overflow-hidden rounded-full bg-line"
      >
        <div className={`h-full ${FILLS[tone]}`} style={{ width: `${String(share * 100)}%` }} />
      </div>
    </>
  );
}
