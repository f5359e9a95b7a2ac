// Runs before each file of tests. Files share a worker: a global that a test replaced must not be what the next file
// finds when it loads its libraries.
import { afterEach, vi } from "vitest";

afterEach(() => {
  vi.unstubAllGlobals();
});
