import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { createElement } from "react";
import { renderToStaticMarkup } from "react-dom/server";
import { expect, test } from "vitest";
import { accountQuery } from "../../api/account";
import { addressesQuery } from "../../api/security";
import type { Account } from "../../api/types";
import { AddressPanel } from "./account-page";

test("who was given an account by the operator reads their address, not an empty box", () => {
  const client = new QueryClient();
  client.setQueryData(accountQuery.queryKey, { email: "ada@example.org" } as Account);
  client.setQueryData(addressesQuery.queryKey, []);
  const html = renderToStaticMarkup(
    createElement(QueryClientProvider, { client }, createElement(AddressPanel)),
  );
  expect(html).toContain("ada@example.org was set by the operator of this server");
});
