// Finds members in a long list.
import type { Member } from "../../api/types";

/** From this many on the list has a search box. */
export const SEARCHED_FROM = 10;

/** Those whose address or role contains the text, in any case. */
export function membersMatching(members: Member[], text: string): Member[] {
  const wanted = text.trim().toLowerCase();
  return members.filter((member) => member.email.toLowerCase().includes(wanted) || member.role.includes(wanted));
}
