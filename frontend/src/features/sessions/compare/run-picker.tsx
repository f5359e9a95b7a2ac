// The runs that are compared, each with its colour and a way out, and one more to add.
import { useInfiniteQuery } from "@tanstack/react-query";
import { Link, useNavigate, useSearchParams } from "react-router";
import { sessionsQuery } from "../../../api/sessions";
import { inputClass } from "../../../ui/field";
import { visible, UserText } from "../../../ui/plain-text";
import { colourOf, MAX_RUNS, runsOf, withRuns } from "./compared-runs";

/** What runs are offered from. */
export const EVERY = { states: [], name: "" };

export function RunPicker({ names }: { names: Readonly<Record<string, string>> }) {
  const [address] = useSearchParams();
  const navigate = useNavigate();
  const runs = runsOf(address);
  const { data } = useInfiniteQuery(sessionsQuery(EVERY));
  const others = (data?.pages.flatMap((page) => page.items) ?? []).filter(
    (session) => !runs.includes(session.id),
  );
  const go = (next: string[]) => {
    void navigate(withRuns(address, next), { replace: true });
  };
  return (
    <div className="flex flex-wrap items-center gap-2">
      <ul aria-label="Compared runs" className="contents">
        {runs.map((id, at) => (
          <li
            key={id}
            className="flex max-w-72 items-center gap-2 rounded-md border border-line bg-surface py-1 pr-1 pl-2.5"
          >
            <span
              aria-hidden
              className="size-2.5 shrink-0 rounded-full"
              style={{ background: `var(${colourOf(at)})` }}
            />
            <Link
              to={`/sessions/${id}`}
              className="truncate rounded hover:text-accent hover:underline"
            >
              <UserText text={names[id] ?? id} />
            </Link>
            <button
              type="button"
              aria-label={`Take out ${visible(names[id] ?? id)}`}
              className="grid size-6 shrink-0 place-items-center rounded text-muted hover:bg-sunken hover:text-ink"
              onClick={() => {
                go(runs.filter((run) => run !== id));
              }}
            >
              ×
            </button>
          </li>
        ))}
      </ul>
      {runs.length < MAX_RUNS ? (
        <select
          aria-label="Add a run"
          className={`${inputClass} max-w-56`}
          value=""
          onChange={(event) => {
            go([...runs, event.target.value]);
          }}
        >
          <option value="">Add a run…</option>
          {others.map((session) => (
            <option key={session.id} value={session.id}>
              {visible(session.name || session.id)}
            </option>
          ))}
        </select>
      ) : (
        <span className="text-xs text-muted">Eight runs at most</span>
      )}
    </div>
  );
}
