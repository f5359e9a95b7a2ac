// What was refused of an episode's calls: how many, and the last messages, the latest first.
import type { EpisodeTimelines } from "../../../api/types";
import { number } from "../../../ui/format";
import { Notice } from "../../../ui/notice";
import { visible } from "../../../ui/plain-text";

export function RefusedCalls({
  refused,
}: {
  refused: EpisodeTimelines["episode"]["refused"] | undefined;
}) {
  if (!refused) return null; // a record of an older server has none
  return (
    <div className="mt-4">
      <Notice
        tone="warn"
        title={`${number(refused.count)} ${refused.count === 1 ? "call was" : "calls were"} refused`}
      >
        <ul className="space-y-1">
          {[...refused.last].reverse().map((call) => (
            <li key={`${String(call.at)} ${call.path}`} className="wrap-anywhere">
              {visible(call.message)} ({call.status}, {visible(call.path)})
            </li>
          ))}
        </ul>
      </Notice>
    </div>
  );
}
