// What a live run is at: its newest episodes with what was asked and answered, as its runtime reports them within seconds, and older ones that still wait.
import { queryOptions } from "@tanstack/react-query";
import { api, unwrap } from "./client";
import { isFinal } from "./sessions";
import type { operations } from "./schema";
import type { Episode } from "./types";

const NEWEST = 100;
const WAITING = 200;
const REFRESH_MS = 3_000;

type Asked = NonNullable<operations["episode_list"]["parameters"]["query"]>;

export interface NowEpisodes {
  /** Newest first. */
  newest: Episode[];
  /** Ended and not trained yet, as they were last reported, the oldest first. */
  waiting: Episode[];
}

/** Episodes are no entries of the record: they are asked for again while the page is looked at. */
export function nowQuery(id: string) {
  const page = async (query: Asked) =>
    (
      await unwrap(
        api.GET("/v1/sessions/{session_id}/episodes", {
          params: { path: { session_id: id }, query },
        }),
      )
    ).items;
  return queryOptions({
    queryKey: ["session", id, "now"],
    queryFn: async (): Promise<NowEpisodes> => {
      const [newest, waiting] = await Promise.all([
        page({ sort: "newest", limit: NEWEST }),
        page({ fate: ["waiting"], sort: "oldest", limit: WAITING }),
      ]);
      return { newest, waiting };
    },
    retry: (failures, error) => failures < 2 && !isFinal(undefined, error),
    refetchInterval: REFRESH_MS,
  });
}
