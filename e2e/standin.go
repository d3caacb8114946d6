// A stand-in for a kubelet: it says which version it is, and goes as far in a dry run as a kubelet goes that accepts its
// flags and configuration. Started as a service, it exits at once.
package main

import (
	"fmt"
	"os"
	"strings"
)

var version = "stand-in-for-version------------"

func main() {
	for _, word := range os.Args[1:] {
		if word == "--version" {
			fmt.Println("Kubernetes " + strings.TrimSpace(version))
			return
		}
	}
	fmt.Println("open /nonexistent/pki: no such file or directory")
	os.Exit(1)
}
