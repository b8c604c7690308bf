// Draws the charts of a page from its JSON. The numbers are in a table as well, for those who have no scripts or no eyes for them.
(() => {
  "use strict";
  const HEIGHT = 180, DASHES = [[], [8, 4], [2, 3], [8, 3, 2, 3]];
  const plots = new Map();
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  // A line needs two points: one that is alone, such as the first of a new console, is shown as a dot.
  const alone = (plot, series) => {
    const known = (index) => plot.data[series][index] != null;
    return plot.data[0].map((_at, index) => index).filter((index) => known(index) && !known(index - 1) && !known(index + 1));
  };

  const WHOLE = [1, 2, 5].flatMap((first) => [0, 1, 2, 3, 4, 5, 6].map((zeros) => first * 10 ** zeros)).sort((one, other) => one - other);
  // As wide as the longest number.
  const wide = (_plot, labels) => 20 + 7 * Math.max(3, ...(labels ?? []).map((label) => String(label).length));
  // In the browser's zone, of 24 hours, as in Sweden.
  const clock = (seconds) => {
    const [day, time] = new Date(seconds * 1000).toLocaleString("sv-SE").split(" ");
    return time === "00:00:00" ? day.slice(5) : time.slice(0, 5);
  };

  const moment = (seconds) => {
    const date = new Date(seconds * 1000);
    return `${date.toLocaleString("sv-SE").slice(0, 16)} (${date.toISOString().slice(11, 16)} UTC)`;
  };

  // Behind the lines a band for each point at which something was paused.
  const pauses = new Map();
  const shade = (box) => (plot) => {
    const [at] = plot.data, { left, top, width, height } = plot.bbox, half = (at[1] - at[0]) / 2;
    plot.ctx.fillStyle = colour("--pause");
    (pauses.get(box) ?? []).forEach((number, index) => {
      if (!number) { return; }
      const [from, to] = [at[index] - half, at[index] + half].map((moment) => plot.valToPos(moment, "x", true));
      const begin = Math.max(Math.floor(from), left);
      plot.ctx.fillRect(begin, top, Math.min(Math.ceil(to), left + width) - begin, height);
    });
  };

  const options = (names, width, box) => ({
    width, height: HEIGHT, hooks: { drawClear: [shade(box)] },
    series: [{ value: (_plot, seconds) => seconds && moment(seconds) }, ...names.map((name, index) => ({
      label: name, stroke: () => colour(`--line-${index + 1}`), width: 2, dash: DASHES[index],
      points: { show: false, filter: alone, size: 7, fill: () => colour(`--line-${index + 1}`) },
    }))],
    axes: [{ values: (_plot, moments) => moments.map(clock), size: 30 }, { size: wide, incrs: WHOLE }].map((own) => ({
      stroke: () => colour("--quiet"), grid: { stroke: () => colour("--grid"), width: 1 }, ticks: { show: false }, ...own,
    })),
    scales: { y: { range: (_plot, _least, most) => [0, Math.max(most * 1.1, 1)] } },
  });

  const show = (box, lines) => {
    const names = box.dataset.series.split(",");
    const data = [lines.at, ...names.map((name) => lines[name])];
    pauses.set(box, lines.paused);
    const place = box.querySelector(".plot");
    const plot = plots.get(box);
    if (plot) {
      plot.setData(data);
    } else {
      plots.set(box, new uPlot(options(names, place.clientWidth, box), data, place));
    }
  };

  const load = async () => {
    const boxes = [...document.querySelectorAll(".chart[data-src]")];
    for (const source of new Set(boxes.map((box) => box.dataset.src))) {
      try {
        const answer = await fetch(source);
        if (!answer.ok) { continue; }
        const lines = await answer.json();
        const mine = boxes.filter((box) => box.dataset.src === source);
        // All at once, since one that appears changes the widths of the others. Where nothing is known, or all is 0, there is none.
        const known = (box) => box.dataset.series.split(",").some((name) => lines[name].some(Boolean));
        mine.forEach((box) => { box.hidden = !known(box); });
        mine.filter(known).forEach((box) => show(box, lines));
      } catch { /* the next refresh tries again */ }
    }
  };

  const fit = () => plots.forEach((plot, box) => plot.setSize({ width: box.clientWidth, height: HEIGHT }));
  addEventListener("resize", fit);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => plots.forEach((plot) => plot.redraw()));
  document.addEventListener("jobboard:refreshed", load);
  load();
})();
