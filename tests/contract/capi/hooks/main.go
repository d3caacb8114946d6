// Reads requests and answers of Cluster API's hooks with Cluster API's own types, strictly, and says what it makes of them.
package main

import (
	"encoding/json"
	"fmt"
	"os"

	jsonpatch "github.com/evanphx/json-patch/v5"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	hooks "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	strict "sigs.k8s.io/json"
)

type question struct {
	Hook    string          `json:"hook"`
	Request json.RawMessage `json:"request"`
	Answer  json.RawMessage `json:"answer"`
}

type told struct {
	Error   string `json:"error,omitempty"`
	Request any    `json:"request,omitempty"` // as Cluster API writes it
	Answer  any    `json:"answer,omitempty"`
	InPlace bool   `json:"inPlace"`
	Retry   int32  `json:"retry"`
}

func read(data []byte, into any) error {
	found, err := strict.UnmarshalStrict(data, into)
	if err != nil {
		return err
	}
	if len(found) > 0 {
		return fmt.Errorf("%v", found)
	}
	return nil
}

func judge(asked question) (*told, error) {
	var request, answer any
	switch asked.Hook {
	case "Discovery":
		request, answer = &hooks.DiscoveryRequest{}, &hooks.DiscoveryResponse{}
	case "CanUpdateMachine":
		request, answer = &hooks.CanUpdateMachineRequest{}, &hooks.CanUpdateMachineResponse{}
	case "CanUpdateMachineSet":
		request, answer = &hooks.CanUpdateMachineSetRequest{}, &hooks.CanUpdateMachineSetResponse{}
	case "UpdateMachine":
		request, answer = &hooks.UpdateMachineRequest{}, &hooks.UpdateMachineResponse{}
	default:
		return nil, fmt.Errorf("no hook %q", asked.Hook)
	}
	if err := read(asked.Request, request); err != nil {
		return nil, fmt.Errorf("request: %w", err)
	}
	if err := read(asked.Answer, answer); err != nil {
		return nil, fmt.Errorf("answer: %w", err)
	}
	// Now, since a patch changes what the request says is current.
	written, err := json.Marshal(request)
	if err != nil {
		return nil, err
	}
	said := &told{Request: json.RawMessage(written), Answer: answer}
	switch its := answer.(type) {
	case *hooks.CanUpdateMachineResponse:
		asks := request.(*hooks.CanUpdateMachineRequest)
		said.InPlace, err = equal(
			&asks.Current.Machine, &asks.Desired.Machine, its.MachinePatch,
			func(m *clusterv1.Machine) *clusterv1.MachineSpec { return &m.Spec },
		)
	case *hooks.CanUpdateMachineSetResponse:
		asks := request.(*hooks.CanUpdateMachineSetRequest)
		said.InPlace, err = equal(
			&asks.Current.MachineSet, &asks.Desired.MachineSet, its.MachineSetPatch,
			func(s *clusterv1.MachineSet) *clusterv1.MachineSpec { return &s.Spec.Template.Spec },
		)
	case *hooks.UpdateMachineResponse:
		said.Retry = its.GetRetryAfterSeconds()
	}
	return said, err
}

// equal applies a patch to what is, and compares with what is wanted whatever a change in place could be made for.
func equal[T any](current, desired *T, patch hooks.Patch, spec func(*T) *clusterv1.MachineSpec) (bool, error) {
	if patch.IsDefined() {
		before, err := json.Marshal(current)
		if err != nil {
			return false, err
		}
		if patch.PatchType != hooks.JSONMergePatchType {
			return false, fmt.Errorf("type of patch %q", patch.PatchType)
		}
		after, err := jsonpatch.MergePatch(before, patch.Patch)
		if err != nil {
			return false, err
		}
		var patched T
		if err := read(after, &patched); err != nil {
			return false, fmt.Errorf("patched: %w", err)
		}
		*spec(current) = *spec(&patched)
	}
	one, other := spec(current), spec(desired)
	return one.Version == other.Version && one.FailureDomain == other.FailureDomain, nil
}

func main() {
	var asked []question
	if err := json.NewDecoder(os.Stdin).Decode(&asked); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	answers := make([]*told, 0, len(asked))
	for _, each := range asked {
		said, err := judge(each)
		if err != nil {
			said = &told{Error: err.Error()}
		}
		answers = append(answers, said)
	}
	if err := json.NewEncoder(os.Stdout).Encode(answers); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
