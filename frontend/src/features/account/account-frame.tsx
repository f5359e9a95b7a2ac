// The page of someone who is not signed in: one box in the middle.
import type { ReactNode } from "react";
import { useTitle } from "../../ui/use-title";
import { Wordmark } from "../../ui/wordmark";

export function AccountFrame({
  title,
  children,
  below,
}: {
  title: string;
  children: ReactNode;
  below?: ReactNode;
}) {
  useTitle(title);
  return (
    <main className="mx-auto flex min-h-screen w-full max-w-sm flex-col justify-center px-6 py-12">
      <div className="mb-6 text-base">
        <Wordmark />
      </div>
      <div className="rounded-xl border border-line bg-surface p-6">
        <h1 className="mb-5 text-lg font-semibold">{title}</h1>
        {children}
      </div>
      {below && <p className="mt-4 text-center text-muted">{below}</p>}
    </main>
  );
}

export const linkClass = "font-medium text-accent underline-offset-2 hover:underline";
