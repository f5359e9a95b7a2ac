// Whether an error is that a part of the console did not arrive, which is the network's or an upgrade's.

// As Chromium, Firefox and WebKit write it, and Vite of a style sheet.
const WORDS = /dynamically imported module|importing a module script failed|unable to preload css/i;

export function isLoadError(error: unknown): boolean {
  return error instanceof Error && WORDS.test(error.message);
}
