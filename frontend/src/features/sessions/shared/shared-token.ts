// The token of a public link stands after #, which browsers send to no server. What changes the address, such as a
// chosen token of an episode, drops that part: it is remembered as long as this tab is open.
const KEPT = "shared-link";

/** Where the browser keeps nothing: until the page is loaded anew. */
let remembered = "";

export function tokenOf(hash: string): string {
  return hash.slice(1) || remembered || (inStorage((storage) => storage.getItem(KEPT)) ?? "");
}

export function rememberToken(token: string): void {
  if (!token) return;
  remembered = token;
  inStorage((storage) => {
    storage.setItem(KEPT, token);
  });
}

/** Browsers that are told to keep nothing throw at the mere mention of it. */
function inStorage<T>(access: (storage: Storage) => T): T | undefined {
  try {
    return access(sessionStorage);
  } catch {
    return undefined;
  }
}
