// The token of a public link stands after #, which browsers send to no server. What changes the address, such as a
// chosen token of an episode, drops that part: the page remembers it as long as this tab is open.
const KEPT = "shared-link";

export function tokenOf(hash: string): string {
  const given = hash.slice(1);
  if (given) sessionStorage.setItem(KEPT, given);
  return given || (sessionStorage.getItem(KEPT) ?? "");
}
