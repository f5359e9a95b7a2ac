// Why a list of a session's episodes is empty, in words.
import { hasEnded } from "../../../api/sessions";
import type { Session } from "../../../api/types";
import { dateTime } from "../../../ui/format";

/** `title` and `text`; without a text the page offers the whole list. */
export function noEpisodes(
  session: Session | undefined,
  isFiltered: boolean,
): { title: string; text?: string } {
  if (session?.episodes_removed_at)
    return {
      title: "Its episodes are no longer kept",
      text: `They were removed on ${dateTime(session.episodes_removed_at)}, by the server's rule for sessions that ended long ago. Checkpoints and metrics of steps stay.`,
    };
  if (isFiltered) return { title: "No episode matches" };
  if (session && hasEnded(session))
    return session.accounting.begun === 0
      ? { title: "No episode was played" }
      : {
          title: "Its episodes are not listed",
          text: `${session.accounting.begun.toLocaleString("en")} were played, and their list did not arrive. What was archived of them is had with "tinkerscript episodes ${session.id}".`,
        };
  return { title: "No episode yet", text: "They are listed a second or two after they begin." };
}
