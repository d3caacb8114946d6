// Command readers reads texts as Kubernetes does. A line of standard input is a JSON object with the kind of text and
// the text in base64; a line of output is what was read, or why it cannot be read.
package main

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"os"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

type request struct {
	Kind string `json:"kind"`
	Text []byte `json:"text"`
}

type answer struct {
	Value any    `json:"value"`
	Error string `json:"error,omitempty"`
}

var readers = map[string]func([]byte) (any, error){
	"yaml":     readYAML,
	"stream":   readStream,
	"json":     readJSON,
	"quantity": readQuantity,
	"time":     readTime,
	"duration": readDuration,
	"base64":   readBase64,
	"integer":  readInteger,
	"port":     readPort,
	"fields":   readFields,
	"daemon":   readDaemon,
}

func main() {
	in, out := bufio.NewReaderSize(os.Stdin, 1<<20), bufio.NewWriter(os.Stdout)
	defer out.Flush()
	for {
		line, err := in.ReadBytes('\n')
		if err == io.EOF {
			return
		}
		var asked request
		if err == nil {
			err = json.Unmarshal(line, &asked)
		}
		if err == nil && readers[asked.Kind] == nil {
			err = fmt.Errorf("unknown kind %q", asked.Kind)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		encoded, err := json.Marshal(read(asked))
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		out.Write(append(encoded, '\n'))
	}
}

func read(asked request) (given answer) {
	defer func() {
		if panicked := recover(); panicked != nil {
			given = answer{Error: fmt.Sprint("panic: ", panicked)}
		}
	}()
	value, err := readers[asked.Kind](asked.Text)
	if err != nil {
		return answer{Error: err.Error()}
	}
	return answer{Value: value}
}

// readYAML reads the first document, as kubelets read a file.
func readYAML(text []byte) (any, error) {
	converted, err := yaml.YAMLToJSON(text)
	return json.RawMessage(converted), err
}

// readStream reads all documents, as kubectl reads a file.
func readStream(text []byte) (any, error) {
	documents := []json.RawMessage{}
	for reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text))); ; {
		document, err := reader.Read()
		if err == io.EOF {
			return documents, nil
		}
		if err != nil {
			return nil, err
		}
		converted, err := yaml.YAMLToJSON(document)
		if err != nil {
			return nil, err
		}
		if string(converted) != "null" {
			documents = append(documents, converted)
		}
	}
}

func readJSON(text []byte) (any, error) {
	var value any
	if err := kjson.UnmarshalCaseSensitivePreserveInts(text, &value); err != nil {
		return nil, err
	}
	return typed(value), nil
}

// typed keeps 1.0 apart from 1, which JSON written by Go does not: both are written as they would be in JSON.
func typed(value any) any {
	switch value := value.(type) {
	case float64:
		if text := strconv.FormatFloat(value, 'f', -1, 64); strings.Contains(text, ".") {
			return json.RawMessage(text)
		} else {
			return json.RawMessage(text + ".0")
		}
	case []any:
		for n, item := range value {
			value[n] = typed(item)
		}
	case map[string]any:
		for key, item := range value {
			value[key] = typed(item)
		}
	}
	return value
}

// readQuantity reads the JSON string with this text.
func readQuantity(text []byte) (any, error) {
	quoted, err := json.Marshal(string(text))
	if err != nil {
		return nil, err
	}
	var quantity resource.Quantity
	if err := json.Unmarshal(quoted, &quantity); err != nil {
		return nil, err
	}
	written, err := json.Marshal(quantity)
	exact := quantity.AsDec()
	amount := new(big.Rat).SetFrac(exact.UnscaledBig(), big.NewInt(1))
	scale := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(max(exact.Scale(), -exact.Scale()))), nil)
	if exact.Scale() >= 0 {
		amount.Quo(amount, new(big.Rat).SetInt(scale))
	} else {
		amount.Mul(amount, new(big.Rat).SetInt(scale))
	}
	return []any{amount.RatString(), json.RawMessage(written)}, err
}

func readTime(text []byte) (any, error) {
	quoted, err := json.Marshal(string(text))
	if err != nil {
		return nil, err
	}
	var moment metav1.Time
	if err := json.Unmarshal(quoted, &moment); err != nil {
		return nil, err
	}
	return moment.UTC().Format(time.RFC3339Nano), nil
}

func readDuration(text []byte) (any, error) {
	quoted, err := json.Marshal(string(text))
	if err != nil {
		return nil, err
	}
	var duration metav1.Duration
	if err := json.Unmarshal(quoted, &duration); err != nil {
		return nil, err
	}
	return strconv.FormatInt(int64(duration.Duration), 10), nil
}

func readBase64(text []byte) (any, error) {
	decoded, err := base64.StdEncoding.DecodeString(string(text))
	return append([]byte{}, decoded...), err
}

// readInteger reads YAML as an int32 field of a manifest is read.
func readInteger(text []byte) (any, error) {
	var field int32
	if converted, err := scalar(text); err != nil {
		return nil, err
	} else if err := kjson.UnmarshalCaseSensitivePreserveInts(converted, &field); err != nil {
		return nil, err
	}
	return field, nil
}

// readPort reads YAML as the port of a probe is read.
func readPort(text []byte) (any, error) {
	var port intstr.IntOrString
	if converted, err := scalar(text); err != nil {
		return nil, err
	} else if err := kjson.UnmarshalCaseSensitivePreserveInts(converted, &port); err != nil {
		return nil, err
	}
	return port, nil
}

func scalar(text []byte) ([]byte, error) {
	converted, err := yaml.YAMLToJSON(text)
	if err == nil && string(converted) == "null" {
		return nil, errors.New("there is no value")
	}
	return converted, err
}

// readFields reads JSON into a struct, as kubelets read their state files.
func readFields(text []byte) (any, error) {
	var state struct {
		PolicyName string            `json:"policyName"`
		Kept       bool              `json:"kept"`
		Number     int64             `json:"number"`
		List       []string          `json:"list"`
		Entries    map[string]string `json:"entries,omitempty"`
	}
	if err := json.Unmarshal(text, &state); err != nil {
		return nil, err
	}
	list, entries := state.List, state.Entries
	if list == nil {
		list = []string{}
	}
	if entries == nil {
		entries = map[string]string{}
	}
	return []any{state.PolicyName, state.Kept, state.Number, list, entries}, nil
}

// readDaemon reads daemon.json as dockerd does: names that are not those of options are refused before the values are
// read into a struct, which would have taken them in any case.
func readDaemon(text []byte) (any, error) {
	var written map[string]any
	if err := json.Unmarshal(text, &written); err != nil {
		return nil, err
	}
	for name := range written {
		switch name {
		case "data-root", "graph", "exec-root", "hosts", "live-restore", "debug", "log-level":
		default:
			return nil, fmt.Errorf("%q is no option", name)
		}
	}
	var set struct {
		Root     string   `json:"data-root"`
		Graph    string   `json:"graph"`
		ExecRoot string   `json:"exec-root"`
		Hosts    []string `json:"hosts"`
		Restore  bool     `json:"live-restore"`
	}
	if err := json.Unmarshal(text, &set); err != nil {
		return nil, err
	}
	hosts := set.Hosts
	if hosts == nil {
		hosts = []string{}
	}
	root := cmp.Or(set.Root, set.Graph, "/var/lib/docker")
	return []any{root, cmp.Or(set.ExecRoot, "/var/run/docker"), hosts, set.Restore}, nil
}
