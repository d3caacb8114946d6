// Command judges asks the programs that GitOps tools are made of what they think of objects: kstatus, the
// evaluator of Flux's health expressions, and the Lua interpreter of Argo CD; or it applies an object as Flux does.
// It reads one question in JSON from standard input and writes one answer in JSON to standard output.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"

	fluxstatus "github.com/fluxcd/cli-utils/pkg/kstatus/status"
	fluxv1 "github.com/fluxcd/kustomize-controller/api/v1"
	"github.com/fluxcd/pkg/apis/kustomize"
	fluxcel "github.com/fluxcd/pkg/runtime/cel"
	lua "github.com/yuin/gopher-lua"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"
	"sigs.k8s.io/yaml"
)

type question struct {
	Objects        map[string]json.RawMessage        `json:"objects"`
	Health         string                            `json:"health"`
	Expressions    *kustomize.HealthCheckExpressions `json:"expressions"`
	ReadyExpr      string                            `json:"readyExpr"`
	Dependencies   map[string]map[string]any         `json:"dependencies"`
	Kustomizations map[string]string                 `json:"kustomizations"`
}

type verdict struct {
	KStatus     string            `json:"kstatus"`
	FluxKStatus string            `json:"fluxKstatus"`
	Flux        string            `json:"flux"`
	Argo        map[string]string `json:"argo"`
}

type answer struct {
	Objects        map[string]verdict `json:"objects"`
	Dependencies   map[string]bool    `json:"dependencies"`
	Kustomizations map[string]string  `json:"kustomizations"`
}

func main() {
	log.SetFlags(0)
	if len(os.Args) != 2 {
		log.Fatal("usage: judges judge|apply < question.json")
	}
	var told any
	var err error
	switch os.Args[1] {
	case "judge":
		told, err = ask(judge)
	case "apply":
		told, err = ask(apply)
	default:
		err = fmt.Errorf("%s is neither judge nor apply", os.Args[1])
	}
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(told)
	}
	if err != nil {
		log.Fatal(err)
	}
}

func ask[Question, Answer any](answer func(context.Context, Question) (Answer, error)) (any, error) {
	var asked Question
	if err := json.NewDecoder(os.Stdin).Decode(&asked); err != nil {
		return nil, fmt.Errorf("cannot read the question: %w", err)
	}
	return answer(context.Background(), asked)
}

func judge(ctx context.Context, asked question) (answer, error) {
	told := answer{Objects: map[string]verdict{}, Dependencies: map[string]bool{}, Kustomizations: map[string]string{}}
	expressions, err := fluxcel.NewStatusEvaluator(asked.Expressions)
	if err != nil {
		return told, fmt.Errorf("cannot compile healthCheckExprs: %w", err)
	}
	for name, raw := range asked.Objects {
		object := &unstructured.Unstructured{}
		if err := object.UnmarshalJSON(raw); err != nil {
			return told, fmt.Errorf("cannot read %s: %w", name, err)
		}
		if told.Objects[name], err = judgeObject(ctx, object, expressions, asked.Health); err != nil {
			return told, fmt.Errorf("cannot judge %s: %w", name, err)
		}
	}
	for name, manifest := range asked.Kustomizations {
		told.Kustomizations[name] = ""
		if err := yaml.UnmarshalStrict([]byte(manifest), &fluxv1.Kustomization{}); err != nil {
			told.Kustomizations[name] = err.Error()
		}
	}
	ready, err := fluxcel.NewExpression(asked.ReadyExpr, fluxcel.WithCompile(), fluxcel.WithStructVariables("self", "dep"))
	if err != nil {
		return told, fmt.Errorf("cannot compile readyExpr: %w", err)
	}
	for name, dependency := range asked.Dependencies {
		it := map[string]any{"self": map[string]any{}, "dep": dependency}
		if told.Dependencies[name], err = ready.EvaluateBoolean(ctx, it); err != nil {
			return told, fmt.Errorf("cannot evaluate readyExpr for %s: %w", name, err)
		}
	}
	return told, nil
}

func judgeObject(
	ctx context.Context, object *unstructured.Unstructured, expressions *fluxcel.StatusEvaluator, script string,
) (verdict, error) {
	plain, err := status.Compute(object)
	if err != nil {
		return verdict{}, err
	}
	forked, err := fluxstatus.Compute(object)
	if err != nil {
		return verdict{}, err
	}
	flux, err := expressions.Evaluate(ctx, object)
	if err != nil {
		return verdict{}, err
	}
	health, err := runHealthScript(object, script)
	if err != nil {
		return verdict{}, err
	}
	return verdict{
		KStatus:     plain.Status.String(),
		FluxKStatus: forked.Status.String(),
		Flux:        flux.Status.String(),
		Argo:        health,
	}, nil
}

// runHealthScript offers the libraries that a health script of argocd-cm gets unless useOpenLibs is set: the basic
// functions and table, no string, no io. (The harmless os functions that Argo CD adds are left out.)
func runHealthScript(object *unstructured.Unstructured, script string) (map[string]string, error) {
	state := lua.NewState(lua.Options{SkipOpenLibs: true})
	defer state.Close()
	for name, open := range map[string]lua.LGFunction{lua.BaseLibName: lua.OpenBase, lua.TabLibName: lua.OpenTable} {
		state.Push(state.NewFunction(open))
		state.Push(lua.LString(name))
		state.Call(1, 0)
	}
	state.SetGlobal("obj", toLua(state, object.Object))
	if err := state.DoString(script); err != nil {
		return nil, err
	}
	table, isTable := state.Get(-1).(*lua.LTable)
	if !isTable {
		return nil, fmt.Errorf("the health script returned no table")
	}
	health := map[string]string{}
	table.ForEach(func(key, value lua.LValue) { health[key.String()] = value.String() })
	return health, nil
}

func toLua(state *lua.LState, value any) lua.LValue {
	switch it := value.(type) {
	case bool:
		return lua.LBool(it)
	case string:
		return lua.LString(it)
	case int64:
		return lua.LNumber(it)
	case float64:
		return lua.LNumber(it)
	case []any:
		list := state.NewTable()
		for _, item := range it {
			list.Append(toLua(state, item))
		}
		return list
	case map[string]any:
		table := state.NewTable()
		for key, item := range it {
			table.RawSetString(key, toLua(state, item))
		}
		return table
	default:
		return lua.LNil
	}
}
