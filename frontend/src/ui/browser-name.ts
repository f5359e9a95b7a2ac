// A User-Agent header in words. Only the well-known ones: the whole text is in the tooltip beside it.

const BROWSERS: readonly [RegExp, string][] = [
  [/\bEdg(?:e|A|iOS)?\//, "Edge"],
  [/\bOPR\//, "Opera"],
  [/\bFirefox\//, "Firefox"],
  [/\b(?:Headless)?Chrom(?:e|ium)\//, "Chrome"],
  [/\bVersion\/.*\bSafari\//, "Safari"],
];
const SYSTEMS: readonly [RegExp, string][] = [
  [/\b(?:iPhone|iPad)\b/, "iOS"],
  [/\bAndroid\b/, "Android"],
  [/\bWindows\b/, "Windows"],
  [/\bMac OS X\b/, "macOS"],
  [/\bLinux\b/, "Linux"],
];

/** "Firefox on Linux"; the first word of an agent that is no browser ("python-httpx/0.27"), or "unknown browser". */
export function browserName(agent: string): string {
  const find = (table: readonly [RegExp, string][]) =>
    table.find(([pattern]) => pattern.test(agent))?.[1];
  const browser = find(BROWSERS);
  const system = find(SYSTEMS);
  if (!browser) return agent.split(" ")[0] || "unknown browser";
  return system ? `${browser} on ${system}` : browser;
}
