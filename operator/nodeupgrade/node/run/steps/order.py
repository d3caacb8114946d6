"""The steps of one node's run, in their order."""

from collections.abc import Mapping

from nodeupgrade.api.task.step import Step
from nodeupgrade.node.run.steps.actions import StepActions
from nodeupgrade.node.run.steps.before_stop import ArmDeadMan, ConfirmBinaries, HoldPackage
from nodeupgrade.node.run.steps.files import PinStaticPods, SaveState, SetArguments, SwapFiles
from nodeupgrade.node.run.steps.kubelet import AwaitNodeStatus, StartKubelet, StopKubelet, SwapBinary, Verify
from nodeupgrade.node.run.steps.runtime import ConfirmInventory, ReadBack, RestartRuntime, RewriteHashes
from nodeupgrade.node.run.steps.shield import LowerShield, RaiseShield

STEPS: Mapping[Step, StepActions] = {
    Step.CONFIRM_BINARIES: ConfirmBinaries(),
    Step.HOLD_PACKAGE: HoldPackage(),
    Step.ARM_DEAD_MAN: ArmDeadMan(),
    Step.STOP_KUBELET: StopKubelet(),
    Step.CONFIRM_INVENTORY: ConfirmInventory(),
    Step.SAVE_STATE: SaveState(),
    Step.PIN_STATIC_PODS: PinStaticPods(),
    Step.REWRITE_HASHES: RewriteHashes(),
    Step.RESTART_RUNTIME: RestartRuntime(),
    Step.READ_BACK: ReadBack(),
    Step.RAISE_SHIELD: RaiseShield(),
    Step.SWAP_FILES: SwapFiles(),
    Step.SET_ARGUMENTS: SetArguments(),
    Step.SWAP_BINARY: SwapBinary(),
    Step.START_KUBELET: StartKubelet(),
    Step.AWAIT_NODE_STATUS: AwaitNodeStatus(),
    Step.VERIFY: Verify(),
    Step.LOWER_SHIELD: LowerShield(),
}
