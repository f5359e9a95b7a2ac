// What each role may do, in words.
import type { Role } from "../../api/types";

export const ROLES: { value: Role; name: string; may: string }[] = [
  { value: "owner", name: "Owner", may: "everything, members and webhooks too" },
  { value: "member", name: "Member", may: "sessions, episodes, own keys" },
  { value: "viewer", name: "Viewer", may: "look and download" },
];
