// What a typed text names beside pages and runs: steps and episodes, of the run that is open or of one that is named, options, words, keys, pages of the manual.
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useDeferredValue } from "react";
import { episodesPage, timelinesPage } from "../../api/episodes";
import { ApiError } from "../../api/errors";
import { keysQuery } from "../../api/keys";
import { anchorOf, manualQuery, type ManualEntry } from "../../api/manual";
import { sessionsPage } from "../../api/sessions";
import type { Episode } from "../../api/types";
import schema from "../../api/session-config.json";
import { visible } from "../../ui/plain-text";
import { WORDS } from "../../ui/words";

const FROM = 2; // characters
const MOST = 6;
const MOST_RUNS = 3; // of a name
const NEWEST_RUNS = 20; // in which an episode is looked for by its id alone
const EPISODE_ID = /^epi_[0-9a-f]{16}$/;
const MOST_NUMBER = 200; // one page of the list
const OPTIONS = Object.keys(schema.properties);

interface Find {
  group: string;
  name: string;
  note: string;
  to: string;
}

/** A step or an episode by its place, of a run that is named before it: "night run episode 5", "night run step 3". */
interface Sought {
  /** Empty: the run that is open. */
  run: string;
  part: "step" | "episode";
  what: string;
}

export function soughtIn(typed: string): Sought | null {
  const [, run = "", part = "", what = ""] =
    /^(?:(.+?)\s+)?(step|episode)\s+(\S.*)$/i.exec(typed.trim()) ?? [];
  const isStep = part.toLowerCase() === "step";
  if (!part || (isStep && !/^\d{1,9}$/.test(what))) return null;
  return { run, part: isStep ? "step" : "episode", what };
}

/** `open`: the id of the run that is open, if any. */
async function findsOfRuns({ run, part, what }: Sought, open: string): Promise<Find[]> {
  const runs = run ? await runsNamed(run) : open ? [{ id: open, name: "this run" }] : [];
  const found = await Promise.all(
    runs
      .slice(0, MOST_RUNS)
      .map(({ id, name }) =>
        part === "step" ? [stepOf(id, name, what)] : episodesOf(id, name, what),
      ),
  );
  return found.flat();
}

/** Runs of this name; "run 12" may be one that is called 12. */
async function runsNamed(name: string): Promise<{ id: string; name: string }[]> {
  for (const each of [name, name.replace(/^run\s+/i, "")]) {
    const { items } = await sessionsPage(
      { states: [], name: each, kinds: ["episodes"] },
      "",
      MOST_RUNS,
    );
    if (items.length > 0) return items;
  }
  return [];
}

function stepOf(run: string, note: string, step: string): Find {
  return {
    group: "Steps and episodes",
    name: `Step ${step}`,
    note,
    to: `/sessions/${run}/steps/${step}`,
  };
}

/** The episode of an id that a program printed: of the run that is open, or of one of the newest. */
async function episodeOfId(id: string, open: string): Promise<Find[]> {
  const { items } = await sessionsPage(
    { states: [], name: "", kinds: ["episodes"] },
    "",
    NEWEST_RUNS,
  );
  const others = items.filter((run) => run.id !== open);
  const runs = open ? [{ id: open, name: "this run" }, ...others] : others;
  const has = await Promise.all(
    runs.map((run) =>
      timelinesPage(run.id, id, 1).then(
        () => true,
        (error: unknown) => {
          if (error instanceof ApiError && error.status === 404) return false;
          throw error;
        },
      ),
    ),
  );
  return runs
    .filter((_, at) => has[at])
    .map((run) => ({
      group: "Steps and episodes",
      name: id,
      note: run.name,
      to: `/sessions/${run.id}/episodes/${id}`,
    }));
}

/** By its number, the first is 1, or by a text in it. */
async function episodesOf(run: string, note: string, what: string): Promise<Find[]> {
  const number = /^\d{1,3}$/.test(what) ? Number(what) : 0;
  const isNumber = number >= 1 && number <= MOST_NUMBER;
  const { items } = await (isNumber
    ? episodesPage(run, [["sort", "oldest"]], "", number)
    : episodesPage(run, [["q", what]], "", MOST));
  const found = isNumber ? items.slice(number - 1) : items;
  return found.map((episode) => ({
    group: "Steps and episodes",
    name: isNumber ? `Episode ${what}: ${titleOf(episode)}` : titleOf(episode),
    note,
    to: `/sessions/${run}/episodes/${episode.episode_id}`,
  }));
}

function titleOf({
  episode_id: id,
  task,
  prompt,
}: Pick<Episode, "episode_id" | "task" | "prompt">): string {
  const asked = (prompt ?? "").split("\n").find((line) => line.trim() !== "");
  return visible(task ?? asked ?? id);
}

/** The steps, options, words and pages of the manual; `run` is the one that is open, if any. */
export function findsOf(typed: string, run: string, pages: readonly ManualEntry[]): Find[] {
  const wanted = typed.trim().toLowerCase();
  const step = /^(?:step\s*)?(\d{1,9})$/.exec(wanted)?.[1];
  const found: Find[] = [];
  if (step && run)
    found.push({
      group: "This run",
      name: `Step ${step}`,
      note: "step",
      to: `/sessions/${run}/steps/${step}`,
    });
  if (wanted.length < FROM) return found;
  const has = (text: string) =>
    text.toLowerCase().includes(wanted) || text.toLowerCase().includes(wanted.replaceAll(" ", "_"));
  const options = OPTIONS.filter(has).map((name): Find => ({
    group: "Options",
    name,
    note: run ? "of this run" : "what it does",
    to: run ? `/sessions/${run}/settings?option=${name}` : `/words?q=${name}`,
  }));
  const words = Object.values(WORDS)
    .filter(({ name }) => has(name))
    .map(({ name }): Find => ({
      group: "Words",
      name,
      note: "what it is",
      to: `/words?q=${encodeURIComponent(name)}`,
    }));
  const manual = pages.flatMap(({ path, title, headings }): Find[] => {
    if (has(title))
      return [{ group: "Manual", name: title, note: "manual", to: `/manual/${path}` }];
    return headings
      .filter(has)
      .slice(0, 2)
      .map((heading) => ({
        group: "Manual",
        name: heading,
        note: title,
        to: `/manual/${path}#${anchorOf(heading)}`,
      }));
  });
  return [...found, ...options.slice(0, MOST), ...words.slice(0, MOST), ...manual.slice(0, MOST)];
}

interface Found {
  finds: Find[];
  isFetching: boolean;
  /** What to type instead, where nothing was found for want of it. */
  hint: string;
}

export function useFinds(typed: string, run: string): Found {
  const text = useDeferredValue(typed.trim());
  const isWord = text.length >= FROM;
  const manual = useQuery(manualQuery);
  const keys = useQuery({ ...keysQuery, enabled: isWord });
  const episodes = useQuery({
    queryKey: ["palette", "episodes", run, text],
    queryFn: () => episodesPage(run, [["q", text]], "", MOST),
    enabled: isWord && run !== "",
    placeholderData: keepPreviousData,
  });
  const ofKeys = (keys.data?.items ?? [])
    .filter(({ name }) => isWord && name.toLowerCase().includes(text.toLowerCase()))
    .map(({ name }): Find => ({ group: "API keys", name, note: "key", to: "/keys" }));
  const sought = soughtIn(text);
  const isId = EPISODE_ID.test(text.toLowerCase());
  const ofRuns = useQuery({
    queryKey: ["palette", "of runs", run, text],
    queryFn: () =>
      sought ? findsOfRuns(sought, run) : isId ? episodeOfId(text.toLowerCase(), run) : [],
    enabled: sought !== null || isId,
  });
  const ofEpisodes = (isWord ? (episodes.data?.items ?? []) : []).map((episode): Find => {
    const { episode_id: id } = episode;
    return {
      group: "Episodes of this run",
      name: titleOf(episode),
      note: id,
      to: `/sessions/${run}/episodes/${id}?q=${encodeURIComponent(text)}`,
    };
  });
  const finds = [
    ...findsOf(text, run, manual.data ?? []),
    ...(ofRuns.data ?? []),
    ...ofEpisodes,
    ...ofKeys.slice(0, MOST),
  ];
  return {
    finds: finds.filter(({ to }, at) => finds.findIndex((find) => find.to === to) === at),
    isFetching: episodes.isFetching || keys.isFetching || ofRuns.isFetching,
    hint:
      sought && !sought.run && !run
        ? `Open its run first, or name it: “my run ${sought.part} ${sought.what}”`
        : "",
  };
}
