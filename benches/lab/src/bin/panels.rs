//! Draws panels of a dashboard as one SVG, for scripts/panels: `panels FILE`. Reads the panels as
//! JSON from standard input: `[{"title", "unit", "series": [{"name", "points": [[seconds, value], ..]}]}]`.

use std::error::Error;
use std::ops::Range;
use std::path::PathBuf;

use plotters::coord::Shift;
use plotters::prelude::*;
use serde::Deserialize;

const PANEL: (u32, u32) = (560, 270);
const COLUMNS: usize = 2;
/// The width of the names of series, to the right of each panel.
const NAMES: u32 = 150;
/// The height of a name.
const LINE: i32 = 15;
const COLOURS: [RGBColor; 10] = [
    RGBColor(30, 110, 180),
    RGBColor(230, 130, 60),
    RGBColor(40, 140, 70),
    RGBColor(200, 30, 40),
    RGBColor(130, 90, 170),
    RGBColor(140, 85, 75),
    RGBColor(215, 110, 180),
    RGBColor(120, 120, 120),
    RGBColor(170, 170, 40),
    RGBColor(20, 170, 190),
];

type Result<T> = std::result::Result<T, Box<dyn Error>>;
type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

#[derive(Deserialize)]
struct Panel {
    title: String,
    unit: String,
    series: Vec<Series>,
}

#[derive(Deserialize)]
struct Series {
    name: String,
    points: Vec<(f64, f64)>,
}

fn main() -> Result<()> {
    let file = PathBuf::from(std::env::args_os().nth(1).ok_or("panels FILE: it says where to write")?);
    let panels: Vec<Panel> = serde_json::from_reader(std::io::stdin())?;
    let times = panels.iter().flat_map(|panel| &panel.series).flat_map(|series| &series.points).map(|point| point.0);
    let (first, last) = times.fold((f64::MAX, f64::MIN), |(first, last), time| (first.min(time), last.max(time)));
    let rows = panels.len().div_ceil(COLUMNS);
    let root = SVGBackend::new(&file, (PANEL.0 * COLUMNS as u32, PANEL.1 * rows as u32)).into_drawing_area();
    root.fill(&WHITE)?;
    for (area, panel) in root.split_evenly((rows, COLUMNS)).iter().zip(&panels) {
        panel.draw(area, first, first..last)?;
    }
    root.present()?;
    Ok(())
}

impl Panel {
    fn draw(&self, area: &Area<'_>, first: f64, times: Range<f64>) -> Result<()> {
        let top = self.series.iter().flat_map(|series| &series.points).map(|point| point.1).fold(0.0, f64::max);
        let top = if top > 0.0 { top * 1.1 } else { 1.0 };
        let (plot, names) = area.split_horizontally(PANEL.0 - NAMES);
        let mut builder = ChartBuilder::on(&plot);
        builder.caption(&self.title, ("sans-serif", 15)).margin(8).x_label_area_size(24).y_label_area_size(58);
        let mut chart = builder.build_cartesian_2d(0.0..times.end - first, 0.0..top)?;
        let value = |value: &f64| shown(*value, &self.unit);
        let mut mesh = chart.configure_mesh();
        mesh.light_line_style(TRANSPARENT).x_labels(8).y_labels(5);
        mesh.x_label_formatter(&|time| format!("{time:.0} s")).y_label_formatter(&value).draw()?;
        for (series, colour) in self.series.iter().zip(COLOURS.iter().cycle()) {
            let points = series.points.iter().map(|(time, value)| (time - first, *value));
            chart.draw_series(LineSeries::new(points, colour.stroke_width(2)))?;
        }
        self.name(&names)
    }

    fn name(&self, area: &Area<'_>) -> Result<()> {
        for ((series, colour), line) in self.series.iter().zip(COLOURS.iter().cycle()).zip(0..) {
            let y = 36 + line * LINE;
            area.draw(&Rectangle::new([(0, y), (10, y + 4)], colour.filled()))?;
            area.draw(&Text::new(series.name.replace("redis://", ""), (15, y - 4), ("sans-serif", 10)))?;
        }
        Ok(())
    }
}

/// A value as Grafana shows it in this unit.
fn shown(value: f64, unit: &str) -> String {
    match unit {
        "s" if value < 1.0 => format!("{:.0} ms", value * 1e3),
        "s" => format!("{value:.1} s"),
        "percentunit" => format!("{:.0} %", value * 100.0),
        "ops" => format!("{value:.1} /s"),
        _ => format!("{value:.0}"),
    }
}
