// The manual, read in the console: its pages beside one that is open.
import { useQuery } from "@tanstack/react-query";
import { useEffect } from "react";
import { Link, NavLink, useLocation, useParams } from "react-router";
import { manualPageQuery, manualQuery, type ManualEntry } from "../../api/manual";
import { CopyBlock } from "../../ui/copy";
import { Loading } from "../../ui/loading";
import { ErrorNotice } from "../../ui/notice";
import { placeClass } from "../../use-menu";
import { useTitle } from "../../ui/use-title";
import { blocksOf, piecesOf, targetOf, type Block, type Piece } from "./markdown";

export function ManualPage() {
  const path = useParams()["*"] || "index";
  const { hash } = useLocation();
  const { data: pages, error: none } = useQuery(manualQuery);
  const { data: text, error } = useQuery(manualPageQuery(path));
  const title = pages?.find((page) => page.path === path)?.title ?? "Manual";
  useTitle(`${title} · Manual`);
  useEffect(() => {
    if (text !== undefined)
      document.getElementById(decodeURIComponent(hash.slice(1)))?.scrollIntoView();
  }, [text, hash]);
  return (
    <div className="grid items-start gap-6 xl:grid-cols-[minmax(0,1fr)_14rem]">
      <article className="min-w-0 max-w-prose space-y-3 leading-relaxed">
        {text === undefined && <h1 className="text-xl font-semibold">{title}</h1>}
        <ErrorNotice error={error ?? none} />
        {text === undefined && !error && <Loading />}
        {text !== undefined && <Blocks text={text} page={path} pages={pages ?? []} />}
      </article>
      <nav aria-label="Pages of the manual" className="print:hidden xl:order-none order-first">
        <details className="xl:hidden">
          <summary className="font-medium">Pages of the manual</summary>
          <Pages pages={pages ?? []} />
        </details>
        <div className="max-xl:hidden">
          <Pages pages={pages ?? []} />
        </div>
      </nav>
    </div>
  );
}

function Pages({ pages }: { pages: readonly ManualEntry[] }) {
  return pages.map(({ path, title }) => (
    <NavLink key={path} to={`/manual/${path}`} end className={placeClass}>
      <span className="truncate">{title}</span>
    </NavLink>
  ));
}

function Blocks({
  text,
  page,
  pages,
}: {
  text: string;
  page: string;
  pages: readonly ManualEntry[];
}) {
  const known = pages.map(({ path }) => path);
  return blocksOf(text).map((block, at) => (
    <BlockView key={at} block={block} page={page} known={known} />
  ));
}

interface Placed {
  page: string;
  known: readonly string[];
}

function BlockView({ block, ...placed }: { block: Block } & Placed) {
  if (block.kind === "code") return <CopyBlock label="Code" text={block.text} />;
  if (block.kind === "heading") {
    const Heading = (["h1", "h2", "h3"] as const)[block.level - 1] ?? "h4";
    return (
      <Heading
        id={block.id}
        className={`scroll-mt-4 font-semibold tracking-tight ${block.level === 1 ? "text-xl" : block.level === 2 ? "pt-3 text-lg" : "pt-2"}`}
      >
        <Inline text={block.text} {...placed} />
      </Heading>
    );
  }
  if (block.kind === "text") {
    return (
      <p>
        <Inline text={block.text} {...placed} />
      </p>
    );
  }
  if (block.kind === "list") {
    const List = block.isOrdered ? "ol" : "ul";
    return (
      <List className={`space-y-1 pl-5 ${block.isOrdered ? "list-decimal" : "list-disc"}`}>
        {block.items.map((item, at) => (
          <li key={at}>
            <Inline text={item} {...placed} />
          </li>
        ))}
      </List>
    );
  }
  return (
    <div className="overflow-x-auto" tabIndex={0} role="region" aria-label="Table">
      <table className="w-full text-left text-xs">
        <thead>
          <tr className="border-b border-line-strong">
            {block.head.map((cell, at) => (
              <th key={at} scope="col" className="px-2 py-1 align-top font-medium">
                <Inline text={cell} {...placed} />
              </th>
            ))}
          </tr>
        </thead>
        <tbody className="divide-y divide-line">
          {block.rows.map((row, at) => (
            <tr key={at}>
              {row.map((cell, column) => (
                <td key={column} className="px-2 py-1 align-top wrap-anywhere">
                  <Inline text={cell} {...placed} />
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Inline({ text, ...placed }: { text: string } & Placed) {
  return piecesOf(text).map((piece, at) => <PieceView key={at} piece={piece} {...placed} />);
}

const link = "rounded text-accent underline underline-offset-2";

function PieceView({ piece, page, known }: { piece: Piece } & Placed) {
  if (piece.kind === "plain") return piece.text;
  if (piece.kind === "code")
    return <code className="rounded bg-sunken px-1 text-[0.9em] wrap-anywhere">{piece.text}</code>;
  if (piece.kind === "strong") return <strong>{piece.text}</strong>;
  if (piece.kind === "emphasis") return <em>{piece.text}</em>;
  if (piece.kind === "picture")
    return (
      <img
        src={new URL(piece.to, `${location.origin}/manual/${page}`).href}
        alt={piece.text}
        className="max-w-full"
      />
    );
  const target = targetOf(page, piece.to, known);
  const label = <Inline text={piece.text} page={page} known={known} />;
  if (target === null) return label;
  if ("inside" in target) {
    return (
      <Link to={target.inside} className={link}>
        {label}
      </Link>
    );
  }
  return (
    <a href={target.outside} rel="noreferrer" target="_blank" className={link}>
      {label}
    </a>
  );
}
