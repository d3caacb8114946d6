// Command oracle prints what the kubelet of the release that it is built with computes for pods, a line of JSON for each.
//
//	oracle -types                      the container's Go types, as a table
//	oracle -manifests DIR [-gates G]   static pods, read by the kubelet's own source of pods
//	oracle -pods                       pods as the API serves them, one per line of standard input
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"reflect"
	"strings"
	"time"

	"k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubernetes/pkg/kubelet/config"
	"k8s.io/kubernetes/pkg/kubelet/container"
)

const node = "oracle"

type answer struct {
	Name   string            `json:"name"`
	Hashes map[string]string `json:"hashes,omitempty"`
	QOS    string            `json:"qos,omitempty"`
	UID    string            `json:"uid,omitempty"`
	Error  string            `json:"error,omitempty"`
}

type field struct {
	Name string `json:"name"`
	Type string `json:"type"`
	Tag  string `json:"tag"`
}

func main() {
	tables := flag.Bool("types", false, "")
	manifests := flag.String("manifests", "", "")
	gates := flag.String("gates", "", "")
	pods := flag.Bool("pods", false, "")
	flag.Parse()
	if *gates != "" {
		fail(setGates(*gates))
	}
	out := json.NewEncoder(os.Stdout)
	switch {
	case *tables:
		found := map[string][]field{}
		describe(reflect.TypeOf(v1.Container{}), found)
		fail(out.Encode(found))
	case *manifests != "":
		for _, pod := range static(*manifests) {
			fail(out.Encode(look(strings.TrimSuffix(pod.Name, "-"+node), pod, true)))
		}
	case *pods:
		fail(served(out))
	}
}

func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func look(name string, pod *v1.Pod, manifest bool) answer {
	found := answer{Name: name, Hashes: map[string]string{}, QOS: class(pod)}
	if manifest {
		found.UID = string(pod.UID)
	}
	for _, list := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			found.Hashes[list[i].Name] = fmt.Sprintf("%x", container.HashContainer(&list[i]))
		}
	}
	return found
}

// served sends each pod through protobuf, as an API server sends it to a kubelet.
func served(out *json.Encoder) error {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<26)
	for lines.Scan() {
		var sent, received v1.Pod
		err := json.Unmarshal(lines.Bytes(), &sent)
		if err == nil {
			var wire []byte
			if wire, err = sent.Marshal(); err == nil {
				err = received.Unmarshal(wire)
			}
		}
		found := look(received.Name, &received, false)
		if err != nil {
			found = answer{Name: sent.Name, Error: err.Error()}
		}
		if err := out.Encode(found); err != nil {
			return err
		}
	}
	return lines.Err()
}

// static reads a directory as the kubelet reads its staticPodPath. The function's parameters differ between releases.
func static(directory string) []*v1.Pod {
	source := reflect.ValueOf(config.NewSourceFile)
	var updates reflect.Value
	var given []reflect.Value
	for i := 0; i < source.Type().NumIn(); i++ {
		switch want := source.Type().In(i); {
		case want == reflect.TypeOf(types.NodeName("")):
			given = append(given, reflect.ValueOf(types.NodeName(node)))
		case want == reflect.TypeOf(time.Second):
			given = append(given, reflect.ValueOf(time.Hour))
		case want.Kind() == reflect.String:
			given = append(given, reflect.ValueOf(directory))
		case want.Kind() == reflect.Chan:
			updates = reflect.MakeChan(reflect.ChanOf(reflect.BothDir, want.Elem()), 1000)
			given = append(given, updates.Convert(want))
		default:
			given = append(given, reflect.Zero(want))
		}
	}
	source.Call(given)
	update, _ := updates.Recv()
	if update.Kind() == reflect.Interface {
		update = update.Elem()
	}
	return update.FieldByName("Pods").Interface().([]*v1.Pod)
}

func describe(of reflect.Type, found map[string][]field) {
	for of.Kind() == reflect.Ptr || of.Kind() == reflect.Slice {
		of = of.Elem()
	}
	if _, known := found[of.Name()]; known || of.Kind() != reflect.Struct || !strings.HasSuffix(of.PkgPath(), "core/v1") {
		return
	}
	found[of.Name()] = nil
	for i := 0; i < of.NumField(); i++ {
		each := of.Field(i)
		written := strings.Replace(each.Type.String(), "v1.", "", 1)
		found[of.Name()] = append(found[of.Name()], field{each.Name, written, each.Tag.Get("json")})
		describe(each.Type, found)
	}
}
