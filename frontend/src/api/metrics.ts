// A run's record: its entries and marks, the measures of its steps as columns, and what its runtimes used of their machines.
import { infiniteQueryOptions, keepPreviousData, queryOptions } from "@tanstack/react-query";
import type { RunAxis, Range } from "../ui/chart-axis";
import { unwrap, api } from "./client";
import type { operations } from "./schema";
import { at, unlessRefused } from "./sessions";
import type { ReadEvents, Evaluation, MetricColumn, MetricColumns, StepMetrics } from "./types";

/** The entries of a run’s record. */
export function eventsPage(
  id: string,
  query: NonNullable<operations["event_list"]["parameters"]["query"]>,
): Promise<ReadEvents> {
  return unwrap(api.GET("/v1/sessions/{session_id}/events", at(id, query)));
}

export const POINTS = 500; // of a chart: those of a long run have their extremes too
const REWARD = { names: "reward_mean" };
const REFRESH_MS = 5_000;
const EVALUATIONS = 200;
const MANY_POINTS = 1000; // where no curve has to be drawn of each measure
const MARKS = 1000;
const HEALTH_REFRESH_MS = 10_000;
export const HEALTH_ENTRIES = 1000;

/** The columns of a run's steps: all of its measures where `names` has none. */
export function metricsRead(
  id: string,
  query: NonNullable<operations["metric_columns"]["parameters"]["query"]>,
): Promise<MetricColumns> {
  return unwrap(api.GET("/v1/sessions/{session_id}/metrics", at(id, query)));
}

export function metricsQuery(id: string, axis: RunAxis, isLive: boolean) {
  return queryOptions({
    queryKey: ["session", id, "metrics", axis],
    queryFn: () => metricsRead(id, { x: axis, points: POINTS }),
    retry: unlessRefused,
    refetchInterval: isLive ? REFRESH_MS : false,
  });
}

/** The steps of a part of the axis, in as many points as a whole run has. */
export function finerQuery(id: string, axis: RunAxis, range: Range | null, isLive: boolean) {
  return queryOptions({
    queryKey: ["session", id, "metrics", axis, range],
    queryFn: () =>
      metricsRead(id, {
        x: axis,
        points: POINTS,
        x_from: range?.min ?? null,
        x_to: range?.max ?? null,
      }),
    enabled: range !== null,
    staleTime: isLive ? REFRESH_MS : Infinity,
  });
}

const STEPS = 100;

/** Each step of a run as it was measured, the newest hundred first; `last`: the newest step. */
export function stepsQuery(id: string, last: number, isLive: boolean) {
  const newest = Math.floor(Math.max(0, last - 1) / STEPS);
  return infiniteQueryOptions({
    queryKey: ["session", id, "steps", "list", newest],
    queryFn: ({ pageParam }) =>
      metricsRead(id, {
        points: STEPS,
        extremes: false,
        x_from: pageParam * STEPS + 1,
        x_to: (pageParam + 1) * STEPS,
      }),
    initialPageParam: newest,
    getNextPageParam: (_, __, hundred) => (hundred > 0 ? hundred - 1 : undefined),
    placeholderData: keepPreviousData,
    refetchInterval: (query) =>
      isLive ? REFRESH_MS * Math.max(1, query.state.data?.pages.length ?? 1) : false,
  });
}

export interface Totals {
  /** Every step's reward, or of a long run stretches of steps with their extremes. */
  rewards: MetricColumns;
  tokens: number;
  /** From the session's creation to its last step, in seconds. */
  tookS: number | null;
}

export function totalsQuery(id: string, isLive: boolean) {
  return queryOptions({
    queryKey: ["session", id, "totals"],
    queryFn: async (): Promise<Totals> => {
      const rewards = await metricsRead(id, { ...REWARD, x: "tokens", points: POINTS });
      const time = await metricsRead(id, { ...REWARD, x: "time", points: 1, extremes: false });
      return { rewards, tokens: rewards.x[rewards.x.length - 1] ?? 0, tookS: time.x[0] ?? null };
    },
    retry: unlessRefused,
    refetchInterval: isLive ? REFRESH_MS : false,
  });
}

/** The reward of each step, in `points` at most. */
export function rewardsQuery(id: string, points: number, isLive: boolean) {
  return queryOptions({
    queryKey: ["session", id, "rewards", points],
    queryFn: () => metricsRead(id, { ...REWARD, points, extremes: false }),
    retry: unlessRefused,
    refetchInterval: isLive ? REFRESH_MS : false,
  });
}

export interface LastMeasures {
  step: StepMetrics | null;
  /** The newest of each set. */
  evaluations: Evaluation[];
  /** Every one that was read, in the order of recording. */
  played: Evaluation[];
}

/** The last step exactly as it was measured, which a column of many steps is not, and the evaluations. */
export function lastMeasuresQuery(id: string, isLive: boolean) {
  return queryOptions({
    queryKey: ["session", id, "last measures"],
    queryFn: async (): Promise<LastMeasures> => {
      const steps = await eventsPage(id, { newest: true, kind: ["metric"], limit: 1 });
      const page = await eventsPage(id, { newest: true, kind: ["evaluation"], limit: EVALUATIONS });
      const played = page.items.map((item) => item.data as unknown as Evaluation);
      const newest = new Map(played.map((one) => [one.name, one]));
      return {
        step: (steps.items[0]?.data as unknown as StepMetrics | undefined) ?? null,
        evaluations: [...newest.values()],
        played,
      };
    },
    retry: unlessRefused,
    refetchInterval: isLive ? REFRESH_MS : false,
  });
}

/** Before the name of what agents measure themselves: a metric, reward/<part>, rewards_by_agent/<agent>. */
export const OWN = "metrics/";

/** A point of several steps stands as the last of them. */
export function stepsOf({ steps, columns }: MetricColumns): StepMetrics[] {
  const [own, measures] = [true, false].map((isOwn) =>
    Object.entries(columns).filter(([name]) => name.startsWith(OWN) === isOwn),
  ) as [[string, MetricColumn][], [string, MetricColumn][]];
  return steps.map((step, at) => {
    const measured = measures.map(([name, column]) => [name, column.last[at] ?? null]);
    const metrics = own.flatMap(([name, column]) =>
      typeof column.last[at] === "number" ? [[name.slice(OWN.length), column.last[at]]] : [],
    );
    return {
      ...Object.fromEntries(measured),
      metrics: Object.fromEntries(metrics),
      step,
    } as unknown as StepMetrics;
  });
}

/** The marks of the record, whatever came between them; of very many of a kind some from the first to the last. Once read they do not change; later ones come live. */
export function marksQuery(id: string) {
  return queryOptions({
    queryKey: ["session", id, "marks"],
    queryFn: () => eventsPage(id, { marks: true, spread: true, limit: MARKS }),
    staleTime: Infinity,
  });
}

/** When each step was recorded, in seconds since the session's creation, as it was after so many restarts. */
export function stepTimesQuery(id: string, restarts: number) {
  return queryOptions({
    queryKey: ["session", id, "step times", restarts],
    queryFn: () => metricsRead(id, { ...REWARD, x: "time", points: MANY_POINTS, extremes: false }),
    staleTime: Infinity,
  });
}

/** What a run’s runtimes used of their machines. */
export function resourcesQuery(id: string, isLive: boolean) {
  return queryOptions({
    queryKey: ["session", id, "resources"],
    queryFn: () =>
      unwrap(api.GET("/v1/sessions/{session_id}/resources", at(id, { points: MANY_POINTS }))),
    retry: unlessRefused,
    refetchInterval: isLive ? HEALTH_REFRESH_MS : false,
  });
}

/** The last state changes, phases and events, oldest first. */
export function healthEventsQuery(id: string, isLive: boolean) {
  return queryOptions({
    queryKey: ["session", id, "health"],
    queryFn: () =>
      eventsPage(id, { newest: true, kind: ["state", "event"], limit: HEALTH_ENTRIES }),
    retry: unlessRefused,
    refetchInterval: isLive ? HEALTH_REFRESH_MS : false,
  });
}
