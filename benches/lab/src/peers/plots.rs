//! Plots of a report, as SVG. All show ratios, such as multiples of the floor's first point or of
//! quorumlock's figure, since absolute times depend on the machine.

use std::path::Path;

use plotters::prelude::*;

use crate::contender::{Kind, Result};
use crate::table::Report;

const SIZE: (u32, u32) = (760, 440);
const COLOURS: [RGBColor; 7] = [
    RGBColor(120, 120, 120),
    RGBColor(170, 170, 120),
    RGBColor(150, 150, 190),
    RGBColor(200, 30, 40),
    RGBColor(230, 130, 60),
    RGBColor(30, 110, 180),
    RGBColor(40, 140, 70),
];

/// Writes all plots that the report has figures for.
pub fn write(report: &Report, folder: &Path) -> Result<()> {
    std::fs::create_dir_all(folder)?;
    let file = |name: &str| folder.join(format!("{name}.svg"));
    curves(report, &file("nodes"), &Axes::NODES)?;
    curves(report, &file("tasks"), &Axes::TASKS)?;
    let far = by_contender(report, "far", "acquire_p50_to_trip");
    let title = "Acquire p50, nodes 80, 2, 160, 12 and 40 ms away";
    bars(&file("far"), title, "multiple of the third-smallest round trip", &far)?;
    let throughput = to_ours(by_contender(report, "contention", "sections_per_second"));
    bars(&file("throughput"), "16 tasks, one name: sections a second", "multiple of quorumlock's", &throughput)?;
    let wait = to_ours(by_contender(report, "contention", "longest_wait_ms"));
    bars(&file("longest-wait"), "16 tasks, one name: longest wait", "multiple of quorumlock's", &wait)?;
    bars(&file("fairness"), "16 tasks, one name: fewest sections of a task", "share of the most", &fairness(report))
}

/// Figures as multiples of quorumlock's.
fn to_ours(values: Vec<(Kind, f64)>) -> Vec<(Kind, f64)> {
    let ours = values.iter().find(|(kind, _)| *kind == Kind::Ours).map_or(f64::NAN, |(_, value)| *value);
    values.into_iter().map(|(kind, value)| (kind, value / ours)).filter(|(_, ratio)| ratio.is_finite()).collect()
}

/// The texts and the figure of a plot of curves.
struct Axes {
    scenario: &'static str,
    title: &'static str,
    x: &'static str,
    y: &'static str,
    figure: &'static str,
}

impl Axes {
    const NODES: Self = Self {
        scenario: "nodes",
        title: "Acquire and release alone, p50",
        x: "nodes",
        y: "multiple of the floor by hand over one node",
        figure: "pair_p50_ms",
    };
    const TASKS: Self = Self {
        scenario: "tasks",
        title: "Pairs a second, each task with a name of its own",
        x: "tasks",
        y: "multiple of the floor by hand, one task",
        figure: "pairs_per_second",
    };
}

fn curves(report: &Report, file: &Path, axes: &Axes) -> Result<()> {
    let points = |kind: Kind| report.series(axes.scenario, kind.name(), axes.figure);
    let Some(&(_, one)) = points(Kind::Hand).first() else { return Ok(()) };
    let to_one = |points: Vec<(f64, f64)>| points.into_iter().map(|(x, y)| (x, y / one)).collect::<Vec<_>>();
    let series = Kind::ALL.into_iter().map(|kind| (kind, to_one(points(kind))));
    let series: Vec<_> = series.filter(|(_, points)| !points.is_empty()).collect();
    let all: Vec<_> = series.iter().flat_map(|(_, points)| points.clone()).collect();
    let Some(right) = all.iter().map(|point| point.0).reduce(f64::max) else { return Ok(()) };
    let top = all.iter().map(|point| point.1).fold(0.0, f64::max) * 1.1;
    let root = SVGBackend::new(file, SIZE).into_drawing_area();
    root.fill(&WHITE)?;
    let mut builder = ChartBuilder::on(&root);
    builder.caption(axes.title, ("sans-serif", 18)).margin(12).x_label_area_size(36).y_label_area_size(64);
    // A logarithmic axis: the numbers of tasks grow by factors.
    let mut chart = builder.build_cartesian_2d((1.0..right * 1.05).log_scale(), 0.0..top)?;
    chart.configure_mesh().x_desc(axes.x).y_desc(axes.y).x_label_formatter(&|x| format!("{x:.0}")).draw()?;
    for (kind, points) in series {
        let colour = COLOURS[kind as usize];
        let width = if kind == Kind::Ours { 3 } else { 1 };
        chart
            .draw_series(LineSeries::new(points, colour.stroke_width(width)).point_size(3))?
            .label(kind.name())
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], colour.stroke_width(width)));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .background_style(WHITE.mix(0.8))
        .border_style(BLACK.mix(0.3))
        .draw()?;
    root.present()?;
    Ok(())
}

fn by_contender(report: &Report, scenario: &str, name: &str) -> Vec<(Kind, f64)> {
    Kind::ALL.into_iter().filter_map(|kind| Some((kind, report.figure(scenario, None, kind.name(), name)?))).collect()
}

fn fairness(report: &Report) -> Vec<(Kind, f64)> {
    let of = |name| by_contender(report, "contention", name);
    let pairs = of("least_sections").into_iter().zip(of("most_sections"));
    pairs.map(|((kind, least), (_, most))| (kind, if most > 0.0 { least / most } else { 0.0 })).collect()
}

/// Draws a bar for each contender, with its figure.
fn bars(file: &Path, title: &str, unit: &str, values: &[(Kind, f64)]) -> Result<()> {
    if values.is_empty() {
        return Ok(());
    }
    let top = values.iter().map(|(_, value)| *value).fold(0.0, f64::max).max(f64::MIN_POSITIVE) * 1.15;
    let root = SVGBackend::new(file, SIZE).into_drawing_area();
    root.fill(&WHITE)?;
    let mut builder = ChartBuilder::on(&root);
    builder.caption(title, ("sans-serif", 18)).margin(12).x_label_area_size(36).y_label_area_size(64);
    let mut chart = builder.build_cartesian_2d(0.0..values.len() as f64, 0.0..top)?;
    chart.configure_mesh().disable_x_mesh().disable_x_axis().y_desc(unit).draw()?;
    for (place, &(kind, value)) in values.iter().enumerate() {
        let place = place as f64;
        let bar = Rectangle::new([(place + 0.15, 0.0), (place + 0.85, value)], COLOURS[kind as usize].filled());
        chart.draw_series([bar])?;
        let style = ("sans-serif", 13).into_font();
        let words = [(value + top * 0.035, crate::table::short(value)), (-top * 0.03, kind.name().to_owned())];
        chart.draw_series(words.into_iter().map(|(y, text)| Text::new(text, (place + 0.15, y), style.clone())))?;
    }
    root.present()?;
    Ok(())
}
