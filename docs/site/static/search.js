// How the search sorts its results: the page whose title is the query first, then environments, guides and tutorials.
var asked = (new URLSearchParams(location.search).get("q") || "").toLowerCase().replace(/[^a-z0-9]/g, "");
var Scorer = {
  score: ([page, title, anchor, , score]) => {
    const name = title.toLowerCase().replace(/[^a-z0-9]/g, "");
    const bare = name.replace(/v[0-9]+$/, "");
    const whole = anchor === "" || anchor === null;
    if (asked && whole && page.startsWith("envs/") && [name, bare].includes(asked)) return score + 1000;
    if (asked && whole && name === asked) return score + 500;
    if (asked && whole && page.startsWith("envs/") && name.startsWith(asked)) return score + 200;
    if (asked && whole && /^(algorithms|guides|tutorials)\//.test(page) && name.includes(asked)) return score + 100;
    if (/^(changelog|kernels|performance|learning|league|scaling)$/.test(page)) return score - 5;
    return score;
  },
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
