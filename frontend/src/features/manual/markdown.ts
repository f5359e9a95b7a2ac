// The manual's Markdown as blocks: what its pages use of it, and nothing that could run.

import { anchorOf } from "../../api/manual";

export type Block =
  | { kind: "heading"; level: number; text: string; id: string }
  | { kind: "code"; text: string }
  | { kind: "table"; head: string[]; rows: string[][] }
  | { kind: "list"; isOrdered: boolean; items: string[] }
  | { kind: "text"; text: string };

export type Piece =
  | { kind: "plain"; text: string }
  | { kind: "code"; text: string }
  | { kind: "strong"; text: string }
  | { kind: "emphasis"; text: string }
  | { kind: "picture"; text: string; to: string }
  | { kind: "link"; text: string; to: string };

const ITEM = /^(\s*)(?:[-*]|(\d+)\.) (.*)$/;

export function blocksOf(source: string): Block[] {
  const lines = source.split("\n");
  const blocks: Block[] = [];
  for (let at = 0; at < lines.length;) {
    const line = lines[at] ?? "";
    const until = (isEnd: (line: string) => boolean) => {
      const begin = at;
      at += 1;
      while (at < lines.length && !isEnd(lines[at] ?? "")) at += 1;
      return lines.slice(begin, at);
    };
    const heading = /^(#{1,6}) (.+)$/.exec(line);
    const fence = /^(\s*)```/.exec(line);
    if (line.trim() === "") at += 1;
    else if (heading) {
      blocks.push({
        kind: "heading",
        level: (heading[1] ?? "").length,
        text: heading[2] ?? "",
        id: anchorOf(heading[2] ?? ""),
      });
      at += 1;
    } else if (fence) {
      const [, ...code] = until((next) => next.trimStart().startsWith("```"));
      blocks.push({
        kind: "code",
        text: code
          .map((each) => each.slice(each.startsWith(fence[1] ?? "") ? (fence[1] ?? "").length : 0))
          .join("\n"),
      });
      at += 1;
    } else if (line.startsWith("|")) {
      const [head = [], , ...rows] = until((next) => !next.startsWith("|")).map(cellsOf);
      blocks.push({ kind: "table", head, rows });
    } else if (ITEM.test(line))
      blocks.push(
        listOf(
          until(
            (next) =>
              next.trim() === "" || next.trimStart().startsWith("```") || next.startsWith("#"),
          ),
        ),
      );
    else
      blocks.push({
        kind: "text",
        text: until(
          (next) =>
            next.trim() === "" ||
            next.startsWith("|") ||
            next.trimStart().startsWith("```") ||
            /^#{1,6} /.test(next) ||
            ITEM.test(next),
        ).join(" "),
      });
  }
  return blocks;
}

function listOf(lines: readonly string[]): Block {
  const items: string[] = [];
  for (const line of lines) {
    const item = ITEM.exec(line);
    if (item) items.push(item[3] ?? "");
    else items.push(`${items.pop() ?? ""} ${line.trim()}`);
  }
  return { kind: "list", isOrdered: /^\s*\d/.test(lines[0] ?? ""), items };
}

/** A bar within code, or after a backslash, divides no cells. */
function cellsOf(row: string): string[] {
  const inner = row.trim().replace(/^\|/, "").replace(/\|$/, "");
  return (inner.match(/(?:`[^`]*`|\\\||[^|])+/g) ?? []).map((cell) =>
    cell.trim().replaceAll("\\|", "|"),
  );
}

const PIECE =
  /(`+)(.+?)\1|\*\*(.+?)\*\*|(?<!\w)\*(\S(?:[^*]*[^*\s])?)\*|(!?)\[([^\]]*)\]\(([^)\s]+)\)/g;

export function piecesOf(text: string): Piece[] {
  const pieces: Piece[] = [];
  let end = 0;
  for (const found of text.matchAll(PIECE)) {
    const [all, , code, strong, emphasis, picture, label = "", to = ""] = found;
    if (found.index > end) pieces.push({ kind: "plain", text: text.slice(end, found.index) });
    if (code !== undefined) pieces.push({ kind: "code", text: code });
    else if (strong !== undefined) pieces.push({ kind: "strong", text: strong });
    else if (emphasis !== undefined) pieces.push({ kind: "emphasis", text: emphasis });
    else pieces.push({ kind: picture ? "picture" : "link", text: label, to });
    end = found.index + all.length;
  }
  return end < text.length ? [...pieces, { kind: "plain", text: text.slice(end) }] : pieces;
}

/** Where a link of a page leads: to another page, elsewhere, or null where the console has no such page. */
export function targetOf(
  page: string,
  to: string,
  known: readonly string[],
): { inside: string } | { outside: string } | null {
  if (/^https?:\/\//.test(to)) return { outside: to };
  const { pathname, hash } = new URL(to, `file:///${page}.md`);
  const path = pathname.slice(1).replace(/\.md$/, "");
  return known.includes(path) ? { inside: `/manual/${path}${hash}` } : null;
}
