// Draws the charts of a page from its JSON. The numbers are in a table as well, for those who have no scripts or no eyes for them.
(() => {
  "use strict";
  const HEIGHT = 150, DASHES = [[], [8, 4], [2, 3], [8, 3, 2, 3]];
  // By its box: the plot, what is drawn in it, and the answer that this comes from.
  const plots = new Map(), drawn = new Map(), answers = new Map();
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  // A line needs two points: one that is alone, such as the first of a new console, is shown as a dot.
  const alone = (plot, series) => {
    const known = (index) => plot.data[series][index] != null;
    return plot.data[0].map((_at, index) => index).filter((index) => known(index) && !known(index - 1) && !known(index + 1));
  };

  const WHOLE = [1, 2, 5].flatMap((first) => [0, 1, 2, 3, 4, 5, 6].map((zeros) => first * 10 ** zeros)).sort((one, other) => one - other);
  // As the pages write spans: two units at most.
  const span = (seconds) => {
    const parts = [[86400, "d"], [3600, "h"], [60, "m"], [1, "s"]].map(([unit, name], index, units) => [Math.floor((index ? seconds % units[index - 1][0] : seconds) / unit), name]);
    const from = parts.findIndex(([number]) => number);
    return from < 0 ? "0s" : parts.slice(from, from + 2).filter(([number]) => number).map((part) => part.join("")).join("");
  };
  const TIMES = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800];
  // How the states are called that the history has under other names.
  const FIELDS = { unclaimed: "waiting", claimed: "running" };
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
  const shade = (box) => (plot) => {
    const [at] = plot.data, { left, top, width, height } = plot.bbox, half = (at[1] - at[0]) / 2;
    plot.ctx.fillStyle = colour("--pause");
    answers.get(box).paused.forEach((number, index) => {
      if (!number) { return; }
      const [from, to] = [at[index] - half, at[index] + half].map((moment) => plot.valToPos(moment, "x", true));
      const begin = Math.max(Math.floor(from), left);
      plot.ctx.fillRect(begin, top, Math.min(Math.ceil(to), left + width) - begin, height);
    });
  };

  // A triangle and a line for each conductor that began.
  const mark = (box) => ({ ctx, bbox: { left, top, width, height }, valToPos }) => {
    const size = 5 * devicePixelRatio;
    ctx.fillStyle = ctx.strokeStyle = colour("--quiet");
    ctx.lineWidth = devicePixelRatio;
    for (const start of answers.get(box).starts) {
      const x = Math.round(valToPos(start, "x", true)), foot = top + height;
      if (x < left || x > left + width) { continue; }
      ctx.setLineDash([2 * devicePixelRatio, 3 * devicePixelRatio]);
      ctx.beginPath(); ctx.moveTo(x, top); ctx.lineTo(x, foot); ctx.stroke();
      ctx.setLineDash([]);
      ctx.beginPath(); ctx.moveTo(x, foot - 2 * size); ctx.lineTo(x + size, foot); ctx.lineTo(x - size, foot); ctx.fill();
    }
  };

  // The lines of a box, each with its own colour; one that is 0 or unknown all the time is left out.
  const linesOf = (box, answer) => {
    const all = box.dataset.series === "names"
      ? answer.names.map(({ name, waiting }) => [name, waiting])
      : box.dataset.series.split(",").map((name) => [name, answer[FIELDS[name] ?? name]]);
    return all.map(([label, values], index) => ({ label, values, index })).filter(({ values }) => values.some(Boolean));
  };

  // Of a stack the upper edge of each layer, the uppermost first.
  const stacked = (lines) => {
    const edges = [];
    for (const { values } of lines) {
      const below = edges[0];
      edges.unshift(values.map((value, at) => value == null ? null : value + (below?.[at] ?? 0)));
    }
    return edges;
  };

  const options = (box, lines, width) => {
    const isStack = box.matches(".stacked"), isTime = box.dataset.unit === "s";
    const unit = (value) => isTime && value !== "" ? span(value) : value;
    const series = lines.map(({ label, index }, place) => {
      const stroke = () => colour(`--line-${index + 1}`);
      return {
        label, stroke, width: 2, dash: isStack ? [] : DASHES[index], fill: isStack ? () => `${stroke()}66` : undefined,
        value: (_plot, _edge, _series, at) => at == null ? "" : unit(drawn.get(box)[place].values[at] ?? ""),
        points: { show: false, filter: alone, size: 7, fill: stroke },
      };
    });
    return {
      width, height: HEIGHT, padding: [null, 18, null, null],
      hooks: {
        drawClear: [shade(box)], draw: [mark(box)],
        setLegend: [(plot) => plot.root.classList.toggle("is-read", plot.legend.idx != null)],
      },
      legend: { markers: { fill: (_plot, place) => place && colour(`--line-${lines[place - 1].index + 1}`) } },
      bands: isStack ? lines.slice(1).map((_line, place) => ({ series: [place + 1, place + 2] })) : [],
      series: [{ value: (_plot, seconds) => seconds && moment(seconds) }, ...series],
      axes: [{ values: (_plot, moments) => moments.map(clock), size: 30 }, isTime ? { size: wide, incrs: TIMES, values: (_plot, all) => all.map(span) } : { size: wide, incrs: WHOLE }].map((own) => ({
        stroke: () => colour("--quiet"), grid: { stroke: () => colour("--grid"), width: 1 }, ticks: { show: false }, ...own,
      })),
      scales: { y: { range: (_plot, _least, most) => [0, Math.max(most * 1.1, 1)] } },
    };
  };

  const show = (box, answer) => {
    const lines = linesOf(box, answer), before = drawn.get(box), isStack = box.matches(".stacked");
    const data = [answer.at, ...(isStack ? stacked(lines) : lines.map(({ values }) => values))];
    const place = box.querySelector(".plot"), plot = plots.get(box);
    box.classList.toggle("is-single", lines.length < 2);
    answers.set(box, answer);
    drawn.set(box, isStack ? lines.reverse() : lines);
    if (plot && lines.map(({ label }) => label).join("\n") === before.map(({ label }) => label).join("\n")) {
      plot.setData(data);
    } else {
      plot?.destroy();
      plots.set(box, new uPlot(options(box, lines, place.clientWidth), data, place));
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
        mine.forEach((box) => { box.hidden = !linesOf(box, lines).length; });
        mine.filter((box) => !box.hidden).forEach((box) => show(box, lines));
      } catch { /* the next refresh tries again */ }
    }
  };

  const fit = () => plots.forEach((plot, box) => plot.setSize({ width: box.clientWidth, height: HEIGHT }));
  addEventListener("resize", fit);
  const drawAnew = () => [...plots].forEach(([box, plot]) => { plot.destroy(); plots.delete(box); show(box, answers.get(box)); });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAnew);
  document.addEventListener("jobboard:refreshed", load);
  load();
})();
