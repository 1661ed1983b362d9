// Command fleetscale prints the calculated load of fleets of several sizes on their
// engine, from the measured cost of a command: see package fleetscale.
//
//	go run ./lab/cmd/fleetscale [--chart FILE.svg]
package main

import (
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/weir-go/weir/lab/fleetscale"
	"github.com/weir-go/weir/lab/report/chart"
)

// ours is the fleet of the calculation.
var ours = fleetscale.Fleet{Keys: 1_000_000, Rate: 5000, TTL: time.Minute, Value: 300}

var (
	sizes  = []int{8, 64, 1000, 10_000}
	shards = []int{1, 3, 10, 30, 100}
	ways   = []string{"names", "values"}
)

// mostInstances is the limit for Most.
const mostInstances = 100_000

func main() {
	to := flag.String("chart", "", "write the chart to this file")
	flag.Parse()
	fmt.Println("| Instances | Pushed | Commands per second | per Get | Pushed per second | Busy cores |\n|---:|---|---:|---:|---:|---:|")
	for _, n := range sizes {
		f := ours
		f.Instances = n
		for way, name := range ways {
			d := f.Demand(fleetscale.Measured, fleetscale.Way(way))
			fmt.Printf("| %d | %s | %.0f | %.4f | %.1f MB | %.2f |\n", n, name, d.Commands, d.PerGet(f), d.Bytes/1e6, d.CPU)
		}
	}
	fmt.Println("\n| Shards | names | values |\n|---:|---:|---:|")
	for _, s := range shards {
		fmt.Printf("| %d |", s)
		for way := range ways {
			fmt.Printf(" %d |", ours.Most(fleetscale.Measured, fleetscale.Way(way), s, mostInstances))
		}
		fmt.Println()
	}
	if *to == "" {
		return
	}
	if err := os.WriteFile(*to, picture().SVG(), 0o644); err != nil { //nolint:gosec // a picture for the docs
		fmt.Fprintln(os.Stderr, "fleetscale:", err)
		os.Exit(1)
	}
}

// picture shows the engine's CPU use by the number of instances.
func picture() chart.Picture {
	lines := chart.Lines{
		Title: "Busy cores of the engine",
		X:     chart.Axis{Title: "instances", Kind: chart.Log},
		Y:     chart.Axis{Title: "busy cores", Kind: chart.Log},
	}
	classes := []chart.Class{"i0", "w0"}
	var keys []chart.Key
	for way, name := range ways {
		line := chart.Line{Name: name, Class: classes[way]}
		for _, n := range []int{2, 4, 8, 16, 32, 64, 128, 256, 512, 1000, 2000, 4000, 10_000} {
			f := ours
			f.Instances = n
			line.Points = append(line.Points, chart.Point{X: float64(n), Y: f.Demand(fleetscale.Measured, fleetscale.Way(way)).CPU})
		}
		lines.Lines = append(lines.Lines, line)
		keys = append(keys, chart.Key{Name: name, Class: classes[way]})
	}
	return chart.Picture{
		Title:  "CPU time of the engine, computed: a million keys, 5,000 Gets per second and instance, TTL 60 s",
		Legend: keys, Panels: []chart.Panel{{Chart: lines}},
	}
}
