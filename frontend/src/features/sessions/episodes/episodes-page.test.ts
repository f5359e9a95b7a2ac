import { expect, test } from "vitest";
import type { Session } from "../../../api/types";
import { noEpisodes } from "./episodes-page";

const session = (state: string, begun: number, removed: string | null = null) =>
  ({
    id: "ses_1",
    state,
    accounting: { begun },
    episodes_removed_at: removed,
  }) as unknown as Session;

test("who waits for the first episode is told when it will be listed", () => {
  for (const waiting of [undefined, session("ready", 0), session("suspended", 8)])
    expect(noEpisodes(waiting, false).title).toBe("No episode yet");
});

test("a session that has ended promises no episode any more, and says where those are that it had", () => {
  expect(noEpisodes(session("stopped", 0), false)).toEqual({ title: "No episode was played" });
  const older = noEpisodes(session("failed", 1200), false);
  expect(older.title).toBe("Its episodes are not listed");
  expect(older.text).toContain("1,200 were played");
  expect(older.text).toContain("tinkerscript episodes ses_1");
});

test("episodes that went by age, and a filter that leaves nothing, are named first", () => {
  expect(noEpisodes(session("stopped", 8, "2026-01-02T03:04:05Z"), true).title).toBe(
    "Its episodes are no longer kept",
  );
  expect(noEpisodes(session("stopped", 8), true)).toEqual({ title: "No episode matches" });
});
