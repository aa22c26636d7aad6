import type { Table } from "./api";

/** Tables of a league's report. */
export function Tables({ tables }: { tables: Table[] }) {
  return (
    <>
      {tables.map((table, i) => (
        <section class="panel" aria-labelledby={`table-${i}`}>
          <h2 id={`table-${i}`}>{table.title}</h2>
          <div class="scroll long" tabIndex={0} role="group" aria-labelledby={`table-${i}`}>
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
          </div>
        </section>
      ))}
    </>
  );
}

function align({ numeric }: Table, column: number): string | undefined {
  return numeric[column] ? "number" : undefined;
}
