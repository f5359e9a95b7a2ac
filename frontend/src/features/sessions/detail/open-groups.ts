// Which groups of charts are open, beside those that always are: it stands in the address, so that a reload and a link show the same charts.
import { withPart } from "../../../ui/address-part";
import { GROUPS } from "./plots";

const PART = "open";

/** The keys of groups that there are, in their order. */
export function openGroups(address: URLSearchParams): string[] {
  const named = (address.get(PART) ?? "").split(",");
  return GROUPS.flatMap(({ key }) => (named.includes(key) ? [key] : []));
}

/** The address with these groups open or closed, and the others as they are. */
export function withOpen(
  address: URLSearchParams,
  keys: readonly string[],
  isOpen: boolean,
): URLSearchParams {
  const others = openGroups(address).filter((key) => !keys.includes(key));
  return withPart(address, PART, (isOpen ? [...others, ...keys] : others).join(","));
}
