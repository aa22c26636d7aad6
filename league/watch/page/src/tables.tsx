import type { Table } from "./api";
import { Scroll } from "./scroll";

/** Tables of a league's report. */
export function Tables({ tables, first = 0 }: { tables: Table[]; first?: number }) {
  return (
    <>
      {tables.map((table, at) => [table, first + at] as const).map(([table, i]) => (
        <section class="panel" aria-labelledby={`table-${i}`}>
          <h2 id={`table-${i}`}>{table.title}</h2>
          <Scroll kind="long" label={`table-${i}`}>
            <table>
              {table.head.length > 0 && (
                <thead>
                  <tr>
                    {table.head.map((cell, column) => (
                      <th scope="col" class={align(table, column)}>
                        {cell}
                      </th>
                    ))}
                  </tr>
                </thead>
              )}
              <tbody>
                {table.rows.map((row) => (
                  <tr>
                    {row.map((cell, column) => (
                      <td class={align(table, column)}>{cell}</td>
                    ))}
                  </tr>
                ))}
              </tbody>
            </table>
          </Scroll>
        </section>
      ))}
    </>
  );
}

function align({ numeric }: Table, column: number): string | undefined {
  return numeric[column] ? "number" : undefined;
}
