// Which groups of charts are folded: it stands in the address, so that a reload and a link show the same charts.
import { withPart } from "../../../ui/address-part";
import { GROUPS } from "./plots";

const PART = "folded";

/** The keys of groups that there are, in their order. */
export function foldedGroups(address: URLSearchParams): string[] {
  const named = (address.get(PART) ?? "").split(",");
  return GROUPS.flatMap(({ key }) => (named.includes(key) ? [key] : []));
}

/** The address with one group folded, or shown. */
export function withFolded(address: URLSearchParams, key: string, isFolded: boolean): URLSearchParams {
  const others = foldedGroups(address).filter((each) => each !== key);
  return withPart(address, PART, (isFolded ? [...others, key] : others).join(","));
}
