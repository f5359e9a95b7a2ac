// What a typed text names beside pages and runs: steps and episodes of the run that is open, options, words, keys, pages of the manual.
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useDeferredValue } from "react";
import { episodesPage } from "../../api/episodes";
import { keysQuery } from "../../api/keys";
import { anchorOf, manualQuery, type ManualEntry } from "../../api/manual";
import schema from "../../api/session-config.json";
import { visible } from "../../ui/plain-text";
import { WORDS } from "../../ui/words";

const FROM = 2; // characters
const MOST = 6;
const OPTIONS = Object.keys(schema.properties);

export interface Find {
  group: string;
  name: string;
  note: string;
  to: string;
}

/** The steps, options, words and pages of the manual; `run` is the one that is open, if any. */
export function findsOf(typed: string, run: string, pages: readonly ManualEntry[]): Find[] {
  const wanted = typed.trim().toLowerCase();
  const step = /^(?:step\s*)?(\d{1,9})$/.exec(wanted)?.[1];
  const found: Find[] = [];
  if (step && run) found.push({ group: "This run", name: `Step ${step}`, note: "step", to: `/sessions/${run}/steps/${step}` });
  if (/^epi_\w+$/.test(wanted) && run) found.push({ group: "This run", name: typed.trim(), note: "episode", to: `/sessions/${run}/episodes/${typed.trim()}` });
  if (wanted.length < FROM) return found;
  const has = (text: string) => text.toLowerCase().includes(wanted) || text.toLowerCase().includes(wanted.replaceAll(" ", "_"));
  const options = OPTIONS.filter(has).map((name): Find => ({ group: "Options", name, note: run ? "of this run" : "what it does", to: run ? `/sessions/${run}/settings?option=${name}` : `/words?q=${name}` }));
  const words = Object.values(WORDS).filter(({ name }) => has(name)).map(({ name }): Find => ({ group: "Words", name, note: "what it is", to: `/words?q=${encodeURIComponent(name)}` }));
  const manual = pages.flatMap(({ path, title, headings }): Find[] => {
    if (has(title)) return [{ group: "Manual", name: title, note: "manual", to: `/manual/${path}` }];
    return headings.filter(has).slice(0, 2).map((heading) => ({ group: "Manual", name: heading, note: title, to: `/manual/${path}#${anchorOf(heading)}` }));
  });
  return [...found, ...options.slice(0, MOST), ...words.slice(0, MOST), ...manual.slice(0, MOST)];
}

export function useFinds(typed: string, run: string): { finds: Find[]; isFetching: boolean } {
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
  const ofEpisodes = (isWord ? (episodes.data?.items ?? []) : []).map(({ episode_id: id, task, prompt }): Find => {
    const asked = (prompt ?? "").split("\n").find((line) => line.trim() !== "");
    return { group: "Episodes of this run", name: visible(task ?? asked ?? id), note: id, to: `/sessions/${run}/episodes/${id}?q=${encodeURIComponent(text)}` };
  });
  return { finds: [...findsOf(text, run, manual.data ?? []), ...ofEpisodes, ...ofKeys.slice(0, MOST)], isFetching: episodes.isFetching || keys.isFetching };
}
