// Where the bars of the rewards stand: columns of equal width from the lowest reward to the highest.
import type { EpisodeFacets } from "../../../api/types";
import { number } from "../../../ui/format";

const COLUMNS = 24; // as many as the server's buckets

interface RewardBar {
  lowest: number;
  highest: number;
  count: number;
  /** From 1 on. */
  column: number;
  /** Of the highest bar, from 0 to 1. */
  share: number;
  text: string;
}

export function rewardBars(rewards: EpisodeFacets["rewards"]): {
  bars: RewardBar[];
  columns: number;
} {
  const [first, last] = [rewards[0], rewards[rewards.length - 1]];
  if (!first || !last) return { bars: [], columns: 0 };
  const width = last.highest / COLUMNS - first.lowest / COLUMNS;
  const columns = width > 0 ? COLUMNS : 1;
  const most = Math.max(...rewards.map((bucket) => bucket.count));
  let before = 0;
  const bars = rewards.map(({ lowest, highest, count }) => {
    const at = width > 0 ? Math.floor(lowest / width - first.lowest / width) + 1 : 1;
    before = Math.min(columns, Math.max(before + 1, at));
    const range = lowest === highest ? number(lowest) : `${number(lowest)} to ${number(highest)}`;
    return {
      lowest,
      highest,
      count,
      column: before,
      share: count / most,
      text: `Reward ${range}: ${count === 1 ? "1 episode" : `${number(count)} episodes`}`,
    };
  });
  return { bars, columns };
}
