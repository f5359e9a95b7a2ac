// What an episode is called where its task has no name: the first line of what was asked.
import type { Episode } from "../../../api/types";

const EXCERPT = 500; // characters of a question that lists have: its end

type Asked = Pick<Episode, "task" | "prompt" | "episode_id">;

/** Its task, else the first line of the question, else its id. */
export function nameOf({ task, prompt, episode_id: id }: Asked): string {
  return task ?? (questionOf(prompt) || id);
}

/** Of a group: what its episodes were asked; a key that a client named is its name. */
export function groupName({
  task,
  group_key: key,
  episodes,
}: {
  task: string | null;
  group_key: string;
  episodes: readonly Pick<Episode, "prompt">[];
}): string {
  const question = episodes.map(({ prompt }) => questionOf(prompt)).find((line) => line !== "");
  return task ?? question ?? key;
}

/** The first line with a word; of a question whose beginning is not in the excerpt with a sign for it. */
export function questionOf(prompt: string): string {
  const line = firstLine(prompt);
  return line !== "" && prompt.length >= EXCERPT ? `… ${line}` : line;
}

export function firstLine(text: string): string {
  return (
    text
      .split("\n")
      .map((line) => line.trim())
      .find((line) => line !== "") ?? ""
  );
}
