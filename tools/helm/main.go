// Command helm lints and renders a chart with Helm's packages. The tests of deploy/ use it, because all of Helm takes four times as long to compile.
//
//	go -C tools/helm run . CHART VALUES...
//
// For each file of values it prints a JSON object with the output of the templates by their names. It fails if Helm's linter finds an error or a
// warning.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/lint"
	"helm.sh/helm/v3/pkg/lint/support"
)

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "Usage: helm CHART VALUES...")
		os.Exit(2)
	}
	out := json.NewEncoder(os.Stdout)
	for _, file := range os.Args[2:] {
		manifests, err := render(os.Args[1], file)
		if err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", file, err)
			os.Exit(1)
		}
		if err := out.Encode(manifests); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}

// render lints a chart with a file of values and returns the output of the templates by their names.
func render(folder, file string) (map[string]string, error) {
	values, err := chartutil.ReadValuesFile(file)
	if err != nil {
		return nil, err
	}
	var faults []error
	for _, m := range lint.All(folder, values, "default", true).Messages {
		if m.Severity >= support.WarningSev {
			faults = append(faults, m)
		}
	}
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	chart, err := loader.Load(folder)
	if err != nil {
		return nil, err
	}
	cluster := chartutil.DefaultCapabilities.Copy()
	cluster.KubeVersion = chartutil.KubeVersion{Version: "v1.30.0", Major: "1", Minor: "30"} // the oldest version that the chart supports
	release := chartutil.ReleaseOptions{Name: "shop", Namespace: "default", Revision: 1, IsInstall: true}
	renderValues, err := chartutil.ToRenderValues(chart, values, release, cluster)
	if err != nil {
		return nil, err
	}
	return engine.Render(chart, renderValues)
}
