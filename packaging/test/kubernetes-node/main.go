// SPDX-License-Identifier: MIT OR Apache-2.0

// Command kubernetes is the programs of a Kubernetes node in one file: what it is called by decides which one runs. One file
// is linked once, and linking takes a gigabyte of memory.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	kubectl "k8s.io/kubectl/pkg/cmd"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllers "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

func main() {
	programs := map[string]func() *cobra.Command{
		"kube-apiserver":          apiserver.NewAPIServerCommand,
		"kube-controller-manager": controllers.NewControllerManagerCommand,
		"kube-scheduler":          func() *cobra.Command { return scheduler.NewSchedulerCommand() },
		"kubectl":                 kubectl.NewDefaultKubectlCommand,
		"kubelet":                 func() *cobra.Command { return kubelet.NewKubeletCommand(context.Background()) },
	}
	name := filepath.Base(os.Args[0])
	program, known := programs[name]
	if !known {
		fmt.Fprintf(os.Stderr, "%s: not a program of Kubernetes; call this file by the name of one\n", name)
		os.Exit(2)
	}
	if name == "kubectl" {
		// kubectl prints its own errors, in its own words.
		if cli.RunNoErrOutput(program()) != nil {
			os.Exit(1)
		}
		return
	}
	os.Exit(cli.Run(program()))
}
